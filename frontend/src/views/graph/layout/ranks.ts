/** Rank of every item: the longest path from the sources, after turning edges that would close a cycle. */

import { at, type FrameSpec, ItemKind } from "./types";

export interface Arc {
  readonly from: number;
  readonly to: number;
}

/** Return every pair of source and target. */
function arcsOf(spec: FrameSpec): Arc[] {
  const arcs: Arc[] = [];
  for (const link of spec.links) {
    for (let t = 0; t < link.targets.length; t += 2) {
      const to = at(link.targets, t);
      if (to !== link.source) arcs.push({ from: link.source, to });
    }
  }
  return arcs;
}

function adjacency(count: number, arcs: readonly Arc[]): number[][] {
  const next: number[][] = Array.from({ length: count }, () => []);
  for (const arc of arcs) next[arc.from]?.push(arc.to);
  return next;
}

/**
 * Return an order in which sources stand before targets, but for arcs that close a cycle.
 *
 * A walk with its own stack, because chains of ten thousand operators would exhaust the call stack.
 */
function depthFirstOrder(count: number, next: readonly number[][]): Int32Array {
  const order = new Int32Array(count);
  const state = new Uint8Array(count);
  const cursor = new Int32Array(count);
  let place = count;
  // From the last item backwards: reversed postorder then keeps unrelated items in their given order.
  for (let root = count - 1; root >= 0; root -= 1) {
    if (state[root] !== 0) continue;
    const stack = [root];
    state[root] = 1;
    while (stack.length > 0) {
      const item = stack[stack.length - 1] as number;
      const targets = next[item] as number[];
      const step = at(cursor, item);
      if (step < targets.length) {
        cursor[item] = step + 1;
        const target = targets[targets.length - 1 - step] as number;
        if (state[target] === 0) {
          state[target] = 1;
          stack.push(target);
        }
      } else {
        stack.pop();
        place -= 1;
        order[place] = item;
      }
    }
  }
  return order;
}

export function rankItems(spec: FrameSpec): Int32Array {
  const count = spec.kinds.length;
  const arcs = arcsOf(spec);
  const order = depthFirstOrder(count, adjacency(count, arcs));
  const position = new Int32Array(count);
  order.forEach((item, index) => {
    position[item] = index;
  });
  // An arc against the order closes a cycle: it is turned for the ranks and drawn upwards.
  const forward = arcs.map(({ from, to }) =>
    at(position, from) < at(position, to) ? { from, to } : { from: to, to: from },
  );
  const next = adjacency(count, forward);

  const entries = spec.kinds.some((kind) => kind === ItemKind.Entry);
  const rank = new Int32Array(count).fill(entries ? 1 : 0);
  const incoming = new Int32Array(count);
  spec.kinds.forEach((kind, item) => {
    if (kind === ItemKind.Entry) rank[item] = 0;
  });
  for (const item of order) {
    for (const target of next[item] as number[]) {
      rank[target] = Math.max(at(rank, target), at(rank, item) + 1);
      incoming[target] = at(incoming, target) + 1;
    }
  }
  // A source stands right above its first reader, not at the far top.
  for (const item of order) {
    const targets = next[item] as number[];
    if (incoming[item] !== 0 || spec.kinds[item] === ItemKind.Entry || targets.length === 0)
      continue;
    rank[item] = Math.min(...targets.map((target) => at(rank, target))) - 1;
  }
  let last = 0;
  spec.kinds.forEach((kind, item) => {
    if (kind !== ItemKind.Exit) last = Math.max(last, at(rank, item));
  });
  spec.kinds.forEach((kind, item) => {
    if (kind === ItemKind.Exit) rank[item] = last + 1;
  });
  return rank;
}
