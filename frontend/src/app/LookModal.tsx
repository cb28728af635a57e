import { lazy } from "react";
import { api } from "../api/client";
import { fieldsOn } from "../document/redistribution";
import type { SliceSource } from "../ui/LookContext";
import { usePlan } from "../ui/PlanContext";

const BucketModal = lazy(() => import("../views/buckets/BucketModal"));
const RedistributionModal = lazy(() => import("../views/redistribute/RedistributionModal"));
const SliceModal = lazy(() => import("../views/redistribute/SliceModal"));

/** What is looked at closer: a collective of the plan, any two layouts, a tensor. */
export type Looked =
  | { kind: "collective"; edge: string; badge: number }
  | { kind: "free" }
  | { kind: "buckets"; positions: readonly number[] }
  | { kind: "slices"; of: SliceSource };

/** The dialog that shows it. */
export function LookModal({ looked, onClose }: { looked: Looked; onClose(): void }) {
  const plan = usePlan((state) => state.plan);
  if (looked.kind === "slices") return <SliceModal of={looked.of} onClose={onClose} />;
  if (looked.kind === "buckets") {
    return <BucketModal positions={looked.positions} onClose={onClose} />;
  }
  const first = fieldsOn(plan.view.mesh, plan.cluster);
  if (looked.kind === "free") {
    return (
      <RedistributionModal title="From one layout to another" first={first} onClose={onClose} />
    );
  }
  const { edge, badge } = looked;
  const label = plan.view.edges.find((other) => other.id === edge)?.label ?? edge;
  const phase = plan.view.edges.find((other) => other.id === edge)?.badges[badge]?.phase ?? "";
  return (
    <RedistributionModal
      title={`Redistribution of ${label}, ${phase}`}
      first={first}
      load={() => api.redistributionOf(plan.id, edge, badge)}
      onClose={onClose}
    />
  );
}
