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
  const { first, last, total } = layers;
  const isRun =
    reach.kind === "range" && reach.first === first && reach.last === last && last > first;
  const mode: Mode =
    reach.kind === "all" ? "all" : isRun ? "run" : reach.first === reach.last ? "one" : "range";
  const whole = first === 0 && last === total - 1;

  function choose(next: string) {
    if (next === "all") onReach({ kind: "all" });
    else if (next === "run") onReach({ kind: "range", first, last });
    else if (next === "one") onReach({ kind: "range", first, last: first });
    else onReach({ kind: "range", first, last: Math.max(first, last - 1) });
  }
  const clamp = (value: number | string) =>
    Math.max(0, Math.min(total - 1, typeof value === "number" ? Math.trunc(value) : 0));

  return (
    <div className={classes["reach"]}>
      <SegmentedControl
        fullWidth
        aria-label="Apply to"
        value={mode}
        onChange={choose}
        data={[
          { value: "all", label: `All ${total}` },
          ...(whole || first === last ? [] : [{ value: "run", label: `${first}–${last}` }]),
          { value: "one", label: "One layer" },
          { value: "range", label: "Range" },
        ]}
      />
      {reach.kind === "range" && mode === "one" && (
        <NumberInput
          aria-label="Layer"
          min={0}
          max={total - 1}
          allowDecimal={false}
          value={reach.first}
          onChange={(value) => onReach({ kind: "range", first: clamp(value), last: clamp(value) })}
        />
      )}
      {reach.kind === "range" && mode === "range" && (
        <div className={classes["reachRange"]}>
          <NumberInput
            aria-label="First layer"
            min={0}
            max={reach.last}
            allowDecimal={false}
            value={reach.first}
            onChange={(value) => onReach({ ...reach, first: Math.min(clamp(value), reach.last) })}
          />
          <span>to</span>
          <NumberInput
            aria-label="Last layer"
            min={reach.first}
            max={total - 1}
            allowDecimal={false}
            value={reach.last}
            onChange={(value) => onReach({ ...reach, last: Math.max(clamp(value), reach.first) })}
          />
        </div>
      )}
    </div>
  );
}
