import { useEffect, useMemo, useState } from "react";
import { layersAround, layersOf, type Reach } from "../document/layers";
import { usePlan, useSelectedNode } from "../ui/PlanContext";
import { ScrollRegion } from "../ui/ScrollRegion";
import { BackToPlan } from "./BackToPlan";
import { CodeButton } from "./CodeButton";
import { Costs } from "./Costs";
import { Factors } from "./Factors";
import { GroupInspector } from "./GroupInspector";
import classes from "./inspector.module.css";
import { MarkedInspector } from "./MarkedInspector";
import { PlanInspector } from "./PlanInspector";
import { ReachPicker } from "./ReachPicker";
import { Recompute } from "./Recompute";
import { Storage } from "./Storage";
import { Tensors } from "./Tensors";
import { Traffic } from "./Traffic";

const ALL: Reach = { kind: "all" };

export function Inspector({ onReach }: { onReach(reach: Reach): void }) {
  const node = useSelectedNode();
  const group = usePlan((state) => state.view.groups.find(({ id }) => id === state.selected));
  const view = usePlan((state) => state.view);
  const ids = usePlan((state) => state.marked);
  const marked = useMemo(
    () => (ids.length === 0 ? [] : view.nodes.filter((other) => ids.includes(other.id))),
    [ids, view],
  );
  const [reach, setReach] = useState<Reach>(ALL);
  const layers = node ? layersOf(view, node) : group ? layersAround(view, group.id) : null;
  const name = node?.name ?? group?.path;

  // Another operator or module starts with all its layers again.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the name is what this is about.
  useEffect(() => setReach(ALL), [name]);
  useEffect(() => onReach(reach), [reach, onReach]);

  return (
    <ScrollRegion label="Inspector" className={classes["inspector"]}>
      {node ? (
        <>
          <header className={classes["head"]}>
            <div>
              <h2 data-testid="inspected">{node.label}</h2>
              <span className={classes["op"]}>{node.op}</span>
              <CodeButton part={{ kind: "node", id: node.id }} of={node.label} />
              <BackToPlan />
            </div>
            <p>{node.summary}</p>
            <p className={`mono ${classes["target"]}`}>{node.target}</p>
            {layers && <ReachPicker layers={layers} reach={reach} onReach={setReach} />}
          </header>
          <Factors node={node} reach={reach} />
          <Tensors node={node} />
          <Traffic node={node} />
          <Storage node={node} reach={reach} />
          <Recompute target={node.target} nodes={[node]} reach={reach} />
          <Costs node={node} />
        </>
      ) : marked.length > 1 ? (
        <MarkedInspector nodes={marked} />
      ) : group ? (
        <GroupInspector group={group} reach={reach}>
          {layers && <ReachPicker layers={layers} reach={reach} onReach={setReach} />}
        </GroupInspector>
      ) : (
        <PlanInspector />
      )}
    </ScrollRegion>
  );
}
