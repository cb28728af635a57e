/** Groups of a view with what is inside them, and which of them are open at first sight. */

import type {
  BadgeView,
  BucketView,
  Delivery,
  Direction,
  GraphBox,
  GraphGroup,
  GraphModel,
  GraphTensor,
  GroupView,
  PlanView,
  Tally,
} from "./model";

type Draft = { -readonly [K in keyof GraphGroup]: GraphGroup[K] };

interface Groups {
  readonly groups: GraphGroup[];
  readonly groupOf: Map<string, number>;
  /** Count operators and collectives once the boxes are known. */
  finish(
    boxes: readonly GraphBox[],
    tensors: readonly GraphTensor[],
    deliveries: readonly Delivery[],
  ): void;
}

const NOTHING: Tally = { collectives: 0, bytes: 0, seconds: 0 };

export function buildGroups(view: PlanView): Groups {
  const shells = shellsOfRuns(view);
  const byId = new Map(view.groups.map((group) => [group.id, group]));
  const groups: Draft[] = [];
  const groupOf = new Map<string, number>();
  for (const group of view.groups) {
    if (shells.has(group.id)) continue;
    const shell = shells.has(group.parent) ? byId.get(group.parent) : undefined;
    const parent = groupOf.get((shell ?? group).parent) ?? -1;
    groupOf.set(group.id, groups.length);
    if (shell) groupOf.set(shell.id, groups.length);
    groups.push(draft(group, shell, parent));
  }
  return {
    groups,
    groupOf,
    finish: (boxes, tensors, deliveries) =>
      count(groups, boxes, tensors, deliveries, view.buckets ?? []),
  };
}

/** Return the lists that hold one run and nothing else: list and run are drawn as one box. */
function shellsOfRuns(view: PlanView): Set<string> {
  const children = new Map<string, GroupView[]>();
  for (const group of view.groups) {
    const inside = children.get(group.parent);
    if (inside) inside.push(group);
    else children.set(group.parent, [group]);
  }
  const busy = new Set(view.nodes.map((node) => node.group));
  const shells = new Set<string>();
  for (const [id, inside] of children) {
    if (id && inside.length === 1 && (inside[0]?.total ?? 0) > 0 && !busy.has(id)) shells.add(id);
  }
  return shells;
}

function draft(group: GroupView, shell: GroupView | undefined, parent: number): Draft {
  const total = group.total ?? 0;
  return {
    id: group.id,
    path: group.path,
    kind: total > 0 ? "run" : group.id.endsWith("#parts") ? "parts" : "module",
    parent,
    title: shell ? shell.label : group.label,
    subtitle: group.class_name,
    layers: group.layers,
    start: group.start ?? 0,
    total,
    step: group.step ?? 1,
    operators: 0,
    tally: { forward: NOTHING, backward: NOTHING },
  };
}

function count(
  groups: Draft[],
  boxes: readonly GraphBox[],
  tensors: readonly GraphTensor[],
  deliveries: readonly Delivery[],
  buckets: readonly BucketView[],
): void {
  const climb = (from: number, visit: (group: Draft) => void) => {
    for (let at = from; at >= 0; at = groups[at]?.parent ?? -1) {
      const group = groups[at];
      if (group) visit(group);
    }
  };
  const inside = new Map<Draft, Set<number>>();
  const charge = (at: number, phase: Direction, step: BadgeView) =>
    climb(at, (group) => {
      // A count is of the whole step; a group that stands for many layers shows one of them, a run all.
      const times = group.kind === "run" ? step.count : step.count / Math.max(1, group.layers);
      const bytes = step.payload_bytes * times;
      const shared = step.buckets ?? [];
      if (shared.length === 0) add(group, phase, times, bytes, step.seconds * times);
      else {
        // Gradients that share collectives: the bytes are their own, the collectives are counted once.
        const known = inside.get(group) ?? new Set<number>();
        inside.set(group, known);
        const fresh = shared.filter((bucket) => !known.has(bucket));
        for (const bucket of fresh) known.add(bucket);
        const runs = fresh.flatMap((bucket) => buckets[bucket] ?? []);
        const share = group.kind === "run" ? 1 : 1 / Math.max(1, group.layers);
        const sum = (of: (bucket: BucketView) => number) =>
          runs.reduce((total, bucket) => total + of(bucket) * bucket.runs, 0) * share;
        add(
          group,
          phase,
          sum(({ collectives }) => collectives),
          bytes,
          sum(({ seconds }) => seconds),
        );
      }
    });
  for (const box of boxes) {
    if (box.kind !== "op") continue;
    climb(box.parent, (group) => {
      group.operators += 1;
    });
    for (const row of box.parameters) {
      for (const step of row.steps.forward) charge(box.parent, "forward", step);
      for (const step of row.steps.backward) charge(box.parent, "backward", step);
    }
  }
  for (const delivery of deliveries) {
    const producer = tensors[delivery.tensor]?.producer ?? -1;
    let at = boxes[producer]?.parent ?? -1;
    for (const reader of delivery.readers)
      at = commonGroup(groups, at, boxes[reader]?.parent ?? -1);
    for (const step of delivery.steps) charge(at, delivery.phase, step);
  }
}

function add(
  group: Draft,
  phase: Direction,
  collectives: number,
  bytes: number,
  seconds: number,
): void {
  const before = group.tally[phase];
  const tally = {
    collectives: before.collectives + collectives,
    bytes: before.bytes + bytes,
    seconds: before.seconds + seconds,
  };
  group.tally = { ...group.tally, [phase]: tally };
}

/** Return the innermost group around both, -1 if there is none. */
function commonGroup(groups: readonly { parent: number }[], a: number, b: number): number {
  const around = new Set<number>([-1]);
  for (let at = a; at >= 0; at = groups[at]?.parent ?? -1) around.add(at);
  let at = b;
  while (!around.has(at)) at = groups[at]?.parent ?? -1;
  return at;
}

/**
 * Return the groups that are open at first sight: modules down to the layers, which stay folded; opening a run shows
 * all that is in a layer. A single layer beside runs of its list is a layer too. Operators made of parts stay closed,
 * and so does what would make one look too large: outer modules open before inner ones.
 */
export function defaultOpen(model: GraphModel, budget = 72): Set<string> {
  const children = new Array<number>(model.groups.length).fill(0);
  let top = 0;
  const born = (parent: number) => {
    if (parent < 0) top += 1;
    else children[parent] = (children[parent] ?? 0) + 1;
  };
  for (const item of [...model.boxes, ...model.groups]) born(item.parent);

  const lists = new Set<number>();
  const depths: number[] = [];
  model.groups.forEach((group, index) => {
    if (group.kind === "run") lists.add(group.parent);
    depths[index] = (depths[group.parent] ?? -1) + 1;
  });
  const outerFirst = model.groups
    .map((group, index) => ({ group, index }))
    .sort((a, b) => (depths[a.index] ?? 0) - (depths[b.index] ?? 0) || a.index - b.index);

  const open = new Set<string>();
  // One look is the whole model with its runs folded, or the inside of one run.
  const lookOf: number[] = [];
  const shown = new Map<number, number>([[-1, top]]);
  for (const { group, index } of outerFirst) {
    const parent = model.groups[group.parent];
    const layer = group.parent >= 0 && lists.has(group.parent);
    const inside = children[index] ?? 0;
    if (group.kind === "run") shown.set(index, inside);
    lookOf[index] = group.kind === "run" ? index : (lookOf[group.parent] ?? -1);
    const look = lookOf[index] ?? -1;
    const visible = !parent || parent.kind === "run" || open.has(parent.id);
    const size = (shown.get(look) ?? 0) + inside - 1;
    if (group.kind !== "module" || layer || !visible || size > budget) continue;
    open.add(group.id);
    shown.set(look, size);
  }
  return open;
}

/**
 * Return the open groups after the model changed. A group keeps its state; a new one takes that of the module that it
 * stands for. Where a run that was open is cut by an edit, the shortest part opens: it is the one that now differs.
 */
export function carryOpen(
  before: GraphModel,
  after: GraphModel,
  open: ReadonlySet<string>,
): Set<string> {
  const known = new Set(before.groups.map((group) => group.id));
  const stateOf = new Map<string, boolean>();
  for (const group of before.groups) {
    stateOf.set(group.path, (stateOf.get(group.path) ?? false) || open.has(group.id));
  }
  const first = defaultOpen(after);
  const next = new Set<string>();
  const shortest = new Map<string, GraphGroup>();
  for (const group of after.groups) {
    const state = stateOf.get(group.path);
    if (known.has(group.id)) {
      if (open.has(group.id)) next.add(group.id);
    } else if (state === undefined) {
      if (first.has(group.id)) next.add(group.id);
    } else if (group.kind !== "run") {
      if (state) next.add(group.id);
    } else if (state) {
      const other = shortest.get(group.path);
      if (!other || group.layers < other.layers) shortest.set(group.path, group);
    }
  }
  for (const group of shortest.values()) next.add(group.id);
  return next;
}
