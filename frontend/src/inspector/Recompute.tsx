import { Switch } from "@mantine/core";
import { recompute } from "../commands/edits";
import { useDocument, usePlan } from "../ui/PlanContext";
import { ProblemNote } from "../ui/states";
import classes from "./inspector.module.css";

/** Whether what a module or operator makes is kept for backward, or computed again there. */
export function Recompute({ target }: { target: string }) {
  const document = useDocument();
  const decisions = usePlan((state) => state.plan.decisions);
  const refusal = usePlan((state) => state.refusal);
  const own = decisions.findLast(
    (decision) => decision.type === "recompute" && decision.target === target,
  );
  const again = own?.type === "recompute" && own.again;
  return (
    <section className={classes["section"]} aria-label="Backward">
      <Switch
        size="xs"
        label="Compute again in backward"
        description="Keeps only what goes in: less memory, one more forward"
        checked={again}
        data-testid="recompute"
        onChange={(event) => document.edit(recompute(target, event.currentTarget.checked))}
      />
      {refusal?.field === "recompute" && <ProblemNote problem={refusal.problem} />}
    </section>
  );
}
