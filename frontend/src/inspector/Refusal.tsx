import { usePlan } from "../ui/PlanContext";
import { ProblemNote } from "../ui/states";

/** Why the last edit of this field was not made, if it was not. */
export function Refusal({ field }: { field: string }) {
  const refusal = usePlan((state) => state.refusal);
  return refusal?.field === field ? <ProblemNote problem={refusal.problem} /> : null;
}
