import { NumberInput, SegmentedControl } from "@mantine/core";
import type { Layers, Reach } from "../document/layers";
import classes from "./inspector.module.css";

type Mode = "all" | "run" | "one" | "range";

/** Which layers an edit is for. */
export function ReachPicker({
  layers,
  reach,
  onReach,
}: {
  layers: Layers;
  reach: Reach;
  onReach(reach: Reach): void;
}) {
  const { first, last, step, least, most } = layers;
  const isRun =
    reach.kind === "range" && reach.first === first && reach.last === last && last > first;
  const mode: Mode =
    reach.kind === "all" ? "all" : isRun ? "run" : reach.first === reach.last ? "one" : "range";
  const whole = first === least && last === most;

  function choose(next: string) {
    if (next === "all") onReach({ kind: "all" });
    else if (next === "run") onReach({ kind: "range", first, last });
    else if (next === "one") onReach({ kind: "range", first, last: first });
    else onReach({ kind: "range", first, last: Math.max(first, last - step) });
  }
  const clamp = (value: number | string) => {
    const wanted = typeof value === "number" ? Math.trunc(value) : least;
    const inside = Math.max(least, Math.min(most, wanted));
    return inside - ((inside - least) % step);
  };

  return (
    <div className={classes["reach"]}>
      <SegmentedControl
        fullWidth
        aria-label="Apply to"
        value={mode}
        onChange={choose}
        data={[
          { value: "all", label: `All ${(most - least) / step + 1}` },
          ...(whole || first === last ? [] : [{ value: "run", label: `${first}–${last}` }]),
          { value: "one", label: "One layer" },
          { value: "range", label: "Range" },
        ]}
      />
      {reach.kind === "range" && mode === "one" && (
        <NumberInput
          aria-label="Layer"
          min={least}
          step={step}
          max={most}
          allowDecimal={false}
          value={reach.first}
          onChange={(value) => onReach({ kind: "range", first: clamp(value), last: clamp(value) })}
        />
      )}
      {reach.kind === "range" && mode === "range" && (
        <div className={classes["reachRange"]}>
          <NumberInput
            aria-label="First layer"
            min={least}
            step={step}
            max={reach.last}
            allowDecimal={false}
            value={reach.first}
            onChange={(value) => onReach({ ...reach, first: Math.min(clamp(value), reach.last) })}
          />
          <span>to</span>
          <NumberInput
            aria-label="Last layer"
            min={reach.first}
            step={step}
            max={most}
            allowDecimal={false}
            value={reach.last}
            onChange={(value) => onReach({ ...reach, last: Math.max(clamp(value), reach.first) })}
          />
        </div>
      )}
    </div>
  );
}
