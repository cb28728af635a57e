// Which layers an edit is for. A target names the layer by `*`, a number or a range.
import type { GroupView, NodeView, PlanView } from "../api/types";

export interface Layers {
  /** First and last layer of the run that the operator stands for. */
  first: number;
  last: number;
  /** Number of layers of the whole repeat. */
  total: number;
}

/** The layers of an operator inside a repeat; null outside. */
export function layersOf(view: PlanView, node: NodeView): Layers | null {
  const groups = new Map(view.groups.map((group) => [group.id, group]));
  let group: GroupView | undefined = groups.get(node.group);
  while (group && group.total === 0) group = groups.get(group.parent);
  if (!group) return null;
  return { first: group.start, last: group.start + group.layers - 1, total: group.total };
}

export type Reach = { kind: "all" } | { kind: "range"; first: number; last: number };

/** The target with the layers that `reach` means. */
export function targetFor(target: string, reach: Reach): string {
  if (reach.kind === "all") return target;
  const { first, last } = reach;
  return target
    .split(".")
    .map((token) => (token === "*" ? (first === last ? `${first}` : `${first}-${last}`) : token))
    .join(".");
}

/** After an edit cut a run of layers in two, the node that stands for `layer`; else the node of the same id. */
export function reselect(
  before: PlanView,
  after: PlanView,
  id: string | null,
  layer: number | null,
): string | null {
  if (id === null) return null;
  const old = before.nodes.find((node) => node.id === id);
  const same = after.nodes.filter((node) => node.name === old?.name);
  const holds = (node: NodeView) => {
    const layers = layersOf(after, node);
    return layers !== null && layer !== null && layers.first <= layer && layer <= layers.last;
  };
  const found =
    (layer === null ? undefined : same.find(holds)) ??
    after.nodes.find((node) => node.id === id) ??
    same[0];
  if (found) return found.id;
  return after.groups.some((group) => group.id === id) ? id : null;
}
