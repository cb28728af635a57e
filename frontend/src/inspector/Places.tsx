import { SegmentedControl } from "@mantine/core";
import type { Common, Place, Placed } from "../document/training";
import { Setting } from "./Setting";

const NAMES: Record<Placed, string> = { storage: "Parameters", optimizer: "Optimizer state" };

/** Where parameters or their optimizer state lie; nothing is marked where they differ. */
export function PlaceControl({
  of,
  whose,
  value,
  onChange,
}: {
  of: Placed;
  /** Whose they are, for screen readers; empty for all. */
  whose: string;
  value: Common<Place>;
  onChange(place: Place): void;
}) {
  const name = whose && of === "storage" ? "Values" : NAMES[of];
  return (
    <Setting label={name}>
      <SegmentedControl
        aria-label={`${name}${whose && ` of ${whose}`} on`}
        data-testid={`place:${of}${whose && `:${whose}`}`}
        data={[
          { value: "device", label: "Device" },
          { value: "host", label: "Host" },
        ]}
        value={value === "mixed" ? "" : value}
        onChange={(place) => onChange(place as Place)}
      />
    </Setting>
  );
}
