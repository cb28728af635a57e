import { SegmentedControl } from "@mantine/core";
import type { NodeView } from "../api/types";
import { recompute } from "../commands/training";
import type { Reach } from "../document/layers";
import { targetFor } from "../document/layers";
import { recomputedNow } from "../document/training";
import { formatInteger } from "../document/units";
import { useDocument, usePlan } from "../ui/PlanContext";
import classes from "./inspector.module.css";
import { Refusal } from "./Refusal";
import { Setting } from "./Setting";

/** Whether what a module or operator makes is kept for backward, or computed again there. */
export function Recompute({
  target,
  nodes,
  reach,
}: {
  target: string;
  /** The operators that it is, or holds. */
  nodes: readonly NodeView[];
  reach: Reach;
}) {
  const document = useDocument();
  const plan = usePlan((state) => state.plan);
  const unsent = usePlan((state) => state.unsent);
  const now = recomputedNow(nodes, unsent, targetFor(target, reach));
  const again = nodes.filter((node) => node.recomputed).length;
  return (
    <section className={classes["section"]} aria-label="Backward">
      <Setting label="For backward">
        <SegmentedControl
          aria-label="For backward, results are"
          data-testid="recompute"
          data={[
            { value: "kept", label: "Kept" },
            { value: "again", label: "Computed again" },
          ]}
          value={now === "mixed" ? "" : now ? "again" : "kept"}
          onChange={(value) => document.edit(recompute(plan, target, value === "again", reach))}
        />
      </Setting>
      <p className={classes["quiet"]}>
        {now === "mixed"
          ? `${formatInteger(again)} of ${formatInteger(nodes.length)} operators are computed again.`
          : "Computing again keeps only what goes in: less memory, one more forward."}
      </p>
      <Refusal field="recompute" />
    </section>
  );
}
