// Which layers an edit is for. A target names the layer by `*`, a number, a range `3-60` or every second `0-22+2`.
import type { GroupView, NodeView, PlanView } from "../api/types";

export interface Layers {
  /** First and last layer of the run that the operator stands for. */
  first: number;
  last: number;
  /** From one of its layers to the next. */
  step: number;
  /** First and last layer that the operator's name stands for. */
  least: number;
  most: number;
}

const RANGE = /^(\d+)-(\d+)(?:\+(\d+))?$/;

/** The layers of an operator inside a repeat; null outside. */
export function layersOf(view: PlanView, node: NodeView): Layers | null {
  return layersAround(view, node.group);
}

/** The layers of a run, or of a module inside one; null outside. */
export function layersAround(view: PlanView, id: string): Layers | null {
  const groups = new Map(view.groups.map((group) => [group.id, group]));
  let group: GroupView | undefined = groups.get(id);
  while (group && group.total === 0) group = groups.get(group.parent);
  if (!group) return null;
  const token = group.path.split(".").at(-1)?.match(RANGE);
  return {
    first: group.start,
    last: lastOf(group),
    step: group.step,
    least: token ? Number(token[1]) : 0,
    most: token ? Number(token[2]) : group.total - 1,
  };
}

/** The last layer of a run. */
export function lastOf(group: { start: number; layers: number; step: number }): number {
  return group.start + (group.layers - 1) * group.step;
}

export type Reach = { kind: "all" } | { kind: "range"; first: number; last: number };

/** The target with the layers that `reach` means. */
export function targetFor(target: string, reach: Reach): string {
  if (reach.kind === "all") return target;
  const { first, last } = reach;
  return target
    .split(".")
    .map((token) => {
      const range = token.match(RANGE);
      if (token !== "*" && !range) return token;
      if (first === last) return `${first}`;
      return range?.[3] ? `${first}-${last}+${range[3]}` : `${first}-${last}`;
    })
    .join(".");
}

/** The layers that `reach` means, behind the name of an edit; nothing where it means all. */
export function layersText(reach: Reach): string {
  if (reach.kind === "all") return "";
  const { first, last } = reach;
  return first === last ? `, layer ${first}` : `, layers ${first}–${last}`;
}

/** After an edit cut a run of layers in two, what stands for `layer` now: a node or a module; else that of the same id. */
export function reselect(
  before: PlanView,
  after: PlanView,
  id: string | null,
  layer: number | null,
): string | null {
  if (id === null) return null;
  const old = before.nodes.find((node) => node.id === id);
  const same = after.nodes.filter((node) => node.name === old?.name);
  const holds = (node: NodeView) => within(layersOf(after, node), layer);
  const found =
    (layer === null ? undefined : same.find(holds)) ??
    after.nodes.find((node) => node.id === id) ??
    same[0];
  if (found) return found.id;
  const path = before.groups.find((group) => group.id === id)?.path;
  const groups = after.groups.filter((group) => group.path === path);
  const around = (group: GroupView) => within(layersAround(after, group.id), layer);
  return (
    (
      (layer === null ? undefined : groups.find(around)) ??
      groups.find((group) => group.id === id) ??
      groups[0]
    )?.id ?? null
  );
}

function within(layers: Layers | null, layer: number | null): boolean {
  if (layers === null || layer === null) return false;
  const { first, last, step } = layers;
  return first <= layer && layer <= last && (layer - first) % step === 0;
}
