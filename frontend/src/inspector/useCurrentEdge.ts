import { type RefObject, useEffect, useRef } from "react";
import { bringIntoView } from "../ui/bringIntoView";
import { usePlan } from "../ui/PlanContext";

/** Whether an edge is the selected one, and where its row is put, so that it is seen then. */
export function useCurrentEdge(id: string): {
  current: boolean;
  row: RefObject<HTMLDivElement | null>;
} {
  const row = useRef<HTMLDivElement>(null);
  const current = usePlan((state) => state.edge === id);
  useEffect(() => {
    if (current) bringIntoView(row.current);
  }, [current]);
  return { current, row };
}
