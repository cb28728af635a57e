/** Folded runs of one list of layers, side by side in the order in which they run. */

import { rankItems } from "./ranks";
import { at, type FrameLayout, type FrameSpec, ItemKind, LinkFlag, type Route } from "./types";

const GAP = 40;
/** How far above the lower side the lines between runs are. */
const SIDE_Y = 54;
const DROP = 20;

export function layoutRow(spec: FrameSpec, id: number): FrameLayout {
  const rank = rankItems(spec);
  const shown = spec.kinds
    .map((_, item) => item)
    .filter((item) => spec.kinds[item] === ItemKind.Box || spec.kinds[item] === ItemKind.Badge)
    .sort((a, b) => at(rank, a) - at(rank, b) || a - b);
  const top = spec.headerHeight + DROP;
  const x: number[] = new Array(spec.kinds.length).fill(0);
  const y: number[] = new Array(spec.kinds.length).fill(0);
  let right = spec.pad;
  let tall = 0;
  shown.forEach((item, i) => {
    const before = shown[i - 1];
    const badge = [item, before ?? item].some((it) => spec.kinds[it] === ItemKind.Badge);
    if (before !== undefined) right += badge ? GAP / 2 : GAP;
    x[item] = right;
    right += at(spec.widths, item);
    tall = Math.max(tall, at(spec.heights, item));
  });
  const line = top + tall - SIDE_Y;
  for (const item of shown) {
    const own = at(spec.heights, item);
    y[item] = spec.kinds[item] === ItemKind.Badge ? line - own / 2 : top + tall - own;
  }
  const width = Math.ceil(Math.max(right + spec.pad, spec.headerWidth + 2 * spec.pad));
  const height = Math.ceil(top + tall + DROP);
  const place = new Map(shown.map((item, i) => [item, i]));
  const middle = (item: number) => at(x, item) + at(spec.widths, item) / 2;

  spec.links.forEach((link) => {
    const first = at(link.targets, 0);
    if (spec.kinds[link.source] === ItemKind.Entry) x[link.source] = middle(first);
    if (spec.kinds[first] === ItemKind.Exit) x[first] = middle(link.source);
  });
  spreadPorts(spec, x);

  const routes: Route[] = [];
  spec.links.forEach((link, index) => {
    for (let t = 0; t < link.targets.length; t += 2) {
      const target = at(link.targets, t);
      const reader = spec.kinds[target] === ItemKind.Box ? LinkFlag.Reader : 0;
      const producer = spec.kinds[link.source] === ItemKind.Box ? LinkFlag.Producer : 0;
      routes.push({
        link: index,
        flags: reader | producer,
        points: path(link.source, target),
      });
    }
  });

  function path(source: number, target: number): number[] {
    if (spec.kinds[source] === ItemKind.Entry) {
      const to =
        spec.kinds[target] === ItemKind.Exit ? at(x, target) : nearest(target, at(x, source));
      return [at(x, source), 0, at(x, source), spec.headerHeight, to, at(y, target)];
    }
    if (spec.kinds[target] === ItemKind.Exit) {
      const from = nearest(source, at(x, target));
      return [from, at(y, source) + at(spec.heights, source), at(x, target), height];
    }
    const [from, to] = [place.get(source) ?? 0, place.get(target) ?? 0];
    if (to === from + 1)
      return [at(x, source) + at(spec.widths, source), line, at(x, target), line];
    // A line past other runs leaves and arrives from above.
    const over = spec.headerHeight + 4;
    return [
      middle(source),
      at(y, source),
      middle(source),
      over,
      middle(target),
      over,
      middle(target),
      at(y, target),
    ];
  }

  function nearest(item: number, wanted: number): number {
    const edge = 16;
    const right = at(x, item) + at(spec.widths, item) - edge;
    return Math.min(right, Math.max(at(x, item) + edge, wanted));
  }

  const ports = (kind: number) => spec.kinds.flatMap((k, i) => (k === kind ? [at(x, i)] : []));
  return {
    id,
    width,
    height,
    x,
    y,
    entries: ports(ItemKind.Entry),
    exits: ports(ItemKind.Exit),
    routes,
  };
}

/** Ports of one side that would coincide stand a little apart. */
function spreadPorts(spec: FrameSpec, x: number[]): void {
  for (const kind of [ItemKind.Entry, ItemKind.Exit]) {
    const ports = spec.kinds.flatMap((k, item) => (k === kind ? [item] : []));
    ports.sort((a, b) => at(x, a) - at(x, b) || a - b);
    ports.forEach((item, i) => {
      const before = ports[i - 1];
      if (before !== undefined && at(x, item) < at(x, before) + 18) x[item] = at(x, before) + 18;
    });
  }
}
