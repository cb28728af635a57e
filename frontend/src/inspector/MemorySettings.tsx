import { SegmentedControl } from "@mantine/core";
import { place, recomputeAll } from "../commands/training";
import { PLACED, placeNow, recomputeMode, recomputePresets } from "../document/training";
import { formatInteger } from "../document/units";
import { useDocument, usePlan, useRegistry } from "../ui/PlanContext";
import classes from "./inspector.module.css";
import { PlaceControl } from "./Places";
import { Refusal } from "./Refusal";
import { Setting } from "./Setting";

/** From the least that is computed again to the most. */
const SHORT: Record<string, string> = {
  recompute_selective: "Attention",
  recompute_full: "Layers",
};

/** What of the whole plan trades time for memory: what lies on the host, what is computed again. */
export function MemorySettings() {
  const document = useDocument();
  const { presets } = useRegistry();
  const plan = usePlan((state) => state.plan);
  const unsent = usePlan((state) => state.unsent);
  const mode = recomputeMode(plan, presets);
  const again = plan.view.nodes.filter((node) => node.recomputed).length;
  return (
    <section className={classes["section"]} aria-labelledby="memory-settings">
      <h3 id="memory-settings" className="section-title">
        Memory
      </h3>
      {PLACED.map((of) => (
        <PlaceControl
          key={of}
          of={of}
          whose=""
          value={placeNow(plan.view, unsent, of)}
          onChange={(where) => document.edit(place("*", of, where))}
        />
      ))}
      <Refusal field="place:*" />
      <Setting label="Recompute">
        <SegmentedControl
          aria-label="Recompute"
          data-testid="recompute-all"
          data={[
            { value: "none", label: "None" },
            ...recomputePresets(presets, Object.keys(SHORT)).map(({ name }) => ({
              value: name,
              label: SHORT[name] ?? name,
            })),
          ]}
          value={mode === "mixed" ? "" : mode}
          onChange={(name) =>
            document.edit(
              recomputeAll(plan, presets.find((preset) => preset.name === name) ?? null),
            )
          }
        />
      </Setting>
      {mode === "mixed" && (
        <p className={classes["quiet"]}>
          Decided by module: {formatInteger(again)} of {formatInteger(plan.view.nodes.length)}{" "}
          operators are computed again.
        </p>
      )}
      <Refusal field="recompute-all" />
    </section>
  );
}
