import { type ReactNode, useMemo } from "react";
import type { GroupView } from "../api/types";
import type { Reach } from "../document/layers";
import { collectivesOf } from "../document/training";
import { buildTree, pathTo } from "../document/tree";
import { formatBytes, formatInteger, formatSeconds } from "../document/units";
import { useDocument, usePlan } from "../ui/PlanContext";
import { BackToPlan } from "./BackToPlan";
import classes from "./inspector.module.css";
import { Recompute } from "./Recompute";

/** What a module or a run of layers holds. */
export function GroupInspector({
  group,
  reach,
  children: reachPicker,
}: {
  group: GroupView;
  reach: Reach;
  /** Says which of its layers edits are for. */
  children: ReactNode;
}) {
  const document = useDocument();
  const view = usePlan((state) => state.view);
  const tree = useMemo(() => buildTree(view), [view]);
  const inside = view.nodes.filter((node) => pathTo(tree, node.id).includes(group.id));
  const ids = new Set(inside.map((node) => node.id));
  // Slices and the like move nothing between ranks.
  const badges = view.edges
    .filter((edge) => edge.readers.some((id) => ids.has(id)))
    .flatMap((edge) => edge.badges)
    .filter((badge) => badge.wire_bytes > 0);
  const sum = (pick: (node: (typeof inside)[number]) => number) =>
    inside.reduce((total, node) => total + pick(node) * node.layers, 0);
  const children = tree.items.get(group.id)?.children ?? [];
  return (
    <>
      <header className={classes["head"]}>
        <div>
          <h2 data-testid="inspected">{group.total > 0 ? `Layers ${group.label}` : group.label}</h2>
          {group.class_name && <span className={classes["op"]}>{group.class_name}</span>}
          <BackToPlan />
        </div>
        <p className={`mono ${classes["target"]}`}>{group.path}</p>
        {reachPicker}
      </header>
      <section className={classes["section"]} aria-label="In all">
        <dl className={classes["facts"]}>
          {group.layers > 1 && (
            <>
              <dt>layers</dt>
              <dd>
                {group.total > 0
                  ? `${group.label} of ${group.total}, drawn as one`
                  : formatInteger(group.layers)}
              </dd>
            </>
          )}
          <dt>operators</dt>
          <dd>{formatInteger(inside.length)}</dd>
          <dt>forward of a microbatch</dt>
          <dd>{formatSeconds(sum((node) => node.forward_s))}</dd>
          <dt>backward of a microbatch</dt>
          <dd>{formatSeconds(sum((node) => node.backward_s))}</dd>
          <dt>collectives in a step</dt>
          <dd>{formatInteger(collectivesOf(view, ids))}</dd>
          <dt>received by a rank</dt>
          <dd>
            {formatBytes(
              badges.reduce((total, badge) => total + badge.wire_bytes * badge.count, 0),
            )}
          </dd>
        </dl>
      </section>
      <Recompute target={group.path} nodes={inside} reach={reach} />
      <section className={classes["section"]} aria-label="Holds">
        <h3 className="section-title">Holds</h3>
        <ul className={classes["list"]}>
          {children.map((id) => (
            <li key={id}>
              <button type="button" className="link" onClick={() => document.select(id)}>
                {tree.items.get(id)?.label}
              </button>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}
