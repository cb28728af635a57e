/** Lay out one level of the graph: ranks, order, x, then y and the lines. */

import { placeRows } from "./coords";
import { orderRows, type Segments } from "./order";
import { rankItems } from "./ranks";
import {
  at,
  type FrameLayout,
  type FrameLink,
  type FrameSpec,
  ItemKind,
  LinkFlag,
  type Route,
} from "./types";

const RANK_GAP = 26;
const BADGE_GAP = 18;
const PORT_WIDTH = 2;
const STUB = 9;
/** A line over more ranks than this passes beside what it skips. */
const BYPASS = 3;

/** Segments with the line each belongs to, and what its ends are. */
interface Wires extends Segments {
  readonly link: number[];
  readonly flags: number[];
}

/** A frame under construction: its items, then the bends that carry long lines through ranks. */
interface Build {
  readonly spec: FrameSpec;
  readonly rank: number[];
  readonly widths: number[];
  readonly bend: boolean[];
  readonly bypass: boolean[];
  readonly wires: Wires;
}

export function layoutFrame(spec: FrameSpec, id: number): FrameLayout {
  const build = start(spec);
  spec.links.forEach((link, index) => {
    thread(build, link, index);
  });
  const rows = rowsOf(build);
  const ordered = orderRows(rows, build.wires, build.rank.length);
  const x = placeRows({
    rows: ordered,
    segments: build.wires,
    widths: build.widths,
    bend: build.bend,
    bypass: build.bypass,
  });
  return finish(build, ordered, x, id);
}

function start(spec: FrameSpec): Build {
  const port = spec.kinds.map((kind) => kind === ItemKind.Entry || kind === ItemKind.Exit);
  return {
    spec,
    rank: [...rankItems(spec)],
    widths: spec.widths.map((width, item) => (port[item] ? PORT_WIDTH : width)),
    bend: port,
    bypass: port.map(() => false),
    wires: { upper: [], lower: [], upperShare: [], lowerShare: [], link: [], flags: [] },
  };
}

/** Where a line meets an item, as a share of its width from its middle. */
function share(spec: FrameSpec, item: number, port: number, upperSide: boolean): number {
  const inner = spec.inner[item];
  if (!inner || port < 0) return 0;
  return at(upperSide ? inner.entries : inner.exits, port) / inner.width - 0.5;
}

/** Cut a link into segments between neighbouring ranks; all its targets share one chain of bends. */
function thread(build: Build, link: FrameLink, index: number): void {
  const { spec, rank } = build;
  const from = at(rank, link.source);
  const leaf = (item: number) => spec.kinds[item] === ItemKind.Box && !spec.inner[item];
  const below: number[] = [];
  for (let t = 0; t < link.targets.length; t += 2) {
    const [target, port] = [at(link.targets, t), at(link.targets, t + 1)];
    if (at(rank, target) > from) below.push(t);
    else turned(build, link, index, target, port);
  }
  below.sort((a, b) => at(rank, at(link.targets, a)) - at(rank, at(link.targets, b)));
  let carrier = link.source;
  let carrierRank = from;
  let carrierShare = share(spec, link.source, link.sourcePort, false);
  let first = leaf(link.source) ? LinkFlag.Producer : 0;
  const last = below[below.length - 1];
  const bypass = last !== undefined && at(rank, at(link.targets, last)) - from > BYPASS;
  for (const t of below) {
    const [target, port] = [at(link.targets, t), at(link.targets, t + 1)];
    while (carrierRank + 1 < at(rank, target)) {
      const bend = addBend(build, carrierRank + 1, bypass);
      wire(build, carrier, bend, carrierShare, 0, index, first);
      [carrier, carrierRank, carrierShare, first] = [bend, carrierRank + 1, 0, 0];
    }
    const flags = first | (leaf(target) ? LinkFlag.Reader : 0);
    wire(build, carrier, target, carrierShare, share(spec, target, port, true), index, flags);
  }
}

/** A line that closes a cycle runs from the lower side of its target down to the upper side of its source. */
function turned(build: Build, link: FrameLink, index: number, target: number, port: number): void {
  const { spec, rank } = build;
  if (at(rank, target) === at(rank, link.source)) return;
  let carrier = target;
  let carrierShare = share(spec, target, port, true);
  for (let r = at(rank, target) + 1; r < at(rank, link.source); r += 1) {
    const bend = addBend(build, r, true);
    wire(build, carrier, bend, carrierShare, 0, index, 0);
    [carrier, carrierShare] = [bend, 0];
  }
  const sourceShare = share(spec, link.source, link.sourcePort, false);
  wire(build, carrier, link.source, carrierShare, sourceShare, index, 0);
}

function addBend(build: Build, rank: number, bypass: boolean): number {
  build.bypass.push(bypass);
  build.rank.push(rank);
  build.widths.push(PORT_WIDTH);
  return build.bend.push(true) - 1;
}

function wire(
  { wires }: Build,
  upper: number,
  lower: number,
  upperShare: number,
  lowerShare: number,
  link: number,
  flags: number,
): void {
  wires.upper.push(upper);
  wires.lower.push(lower);
  wires.upperShare.push(upperShare);
  wires.lowerShare.push(lowerShare);
  wires.link.push(link);
  wires.flags.push(flags);
}

function rowsOf({ rank }: Build): number[][] {
  const rows: number[][] = [];
  rank.forEach((r, item) => {
    while (rows.length <= r) rows.push([]);
    rows[r]?.push(item);
  });
  return rows;
}

function finish(build: Build, rows: readonly number[][], x: Float64Array, id: number): FrameLayout {
  const { spec, rank, widths, wires } = build;
  const own = spec.kinds.length;
  const height = (item: number) => (item < own ? at(spec.heights, item) : 0);

  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  widths.forEach((width, item) => {
    low = Math.min(low, at(x, item) - width / 2);
    high = Math.max(high, at(x, item) + width / 2);
  });
  if (low > high) [low, high] = [0, 0];
  const width = Math.ceil(Math.max(high - low, spec.headerWidth) + 2 * spec.pad);
  const shift = (width - (high - low)) / 2 - low;

  const { top, bottom, total } = verticals(build, rows, x);
  const middle = (item: number) => at(x, item) + shift;
  const upperEdge = (item: number) => {
    const r = at(rank, item);
    if (item >= own || build.bend[item]) return at(top, r);
    return (at(top, r) + at(bottom, r) - height(item)) / 2;
  };
  const lowerEdge = (item: number) => {
    if (item >= own || build.bend[item]) return at(bottom, at(rank, item));
    return upperEdge(item) + height(item);
  };

  const routes: Route[] = wires.upper.map((upper, s) => {
    const lower = at(wires.lower, s);
    const x1 = middle(upper) + at(wires.upperShare, s) * at(widths, upper);
    const x2 = middle(lower) + at(wires.lowerShare, s) * at(widths, lower);
    const entry = spec.kinds[upper] === ItemKind.Entry;
    const points = [x1, entry ? 0 : lowerEdge(upper)];
    const push = (px: number, py: number) => {
      const last = points.length;
      if (px !== points[last - 2] || py !== points[last - 1]) points.push(px, py);
    };
    const [leave, arrive] = [at(bottom, at(rank, upper)), at(top, at(rank, lower))];
    push(x1, leave);
    if (Math.abs(x1 - x2) > 1) {
      // A short upright piece at both ends shows where a line belongs, and gives its arrow a shaft.
      push(x1, leave + STUB / 2);
      push(x2, arrive - STUB);
    }
    push(x2, arrive);
    push(x2, build.bend[lower] ? at(bottom, at(rank, lower)) : upperEdge(lower));
    return { link: at(wires.link, s), flags: at(wires.flags, s), points: merged(points) };
  });

  const ports = (kind: number) =>
    spec.kinds.flatMap((k, item) => (k === kind ? [middle(item)] : []));
  return {
    id,
    width,
    height: Math.ceil(total),
    x: spec.kinds.map((_, item) => middle(item) - at(widths, item) / 2),
    y: spec.kinds.map((_, item) => upperEdge(item)),
    entries: ports(ItemKind.Entry),
    exits: ports(ItemKind.Exit),
    routes,
  };
}

/** Leave out points in the middle of straight vertical lines, and iron out steps too small to see. */
function merged(points: number[]): number[] {
  const kept = [at(points, 0), at(points, 1)];
  for (let i = 2; i < points.length; i += 2) {
    const [px, py] = [at(points, i), at(points, i + 1)];
    const n = kept.length;
    const straight =
      n >= 4 && at(kept, n - 2) === px && at(kept, n - 4) === px && i + 2 <= points.length;
    if (straight) kept[n - 1] = py;
    else kept.push(px, py);
  }
  return kept;
}

/** Top and bottom of each rank: wide detours get more room, so that their curves stay gentle. */
function verticals(
  { spec, rank, widths, wires }: Build,
  rows: readonly number[][],
  x: Float64Array,
): { top: number[]; bottom: number[]; total: number } {
  const own = spec.kinds.length;
  const swing = new Float64Array(rows.length);
  wires.upper.forEach((upper, s) => {
    const lower = at(wires.lower, s);
    const dx =
      at(x, upper) +
      at(wires.upperShare, s) * at(widths, upper) -
      at(x, lower) -
      at(wires.lowerShare, s) * at(widths, lower);
    const r = at(rank, upper);
    swing[r] = Math.max(at(swing, r), Math.abs(dx));
  });
  const kindsIn = (row: readonly number[], kind: number) =>
    row.some((item) => item < own && spec.kinds[item] === kind);
  const entries = kindsIn(rows[0] ?? [], ItemKind.Entry);
  const exits = kindsIn(rows[rows.length - 1] ?? [], ItemKind.Exit);
  const top: number[] = [];
  const bottom: number[] = [];
  let y = entries ? 0 : spec.headerHeight + (spec.headerHeight > 0 ? 6 : 0);
  rows.forEach((row, r) => {
    const entryRow = entries && r === 0;
    const exitRow = exits && r === rows.length - 1;
    let tall = entryRow ? spec.headerHeight : exitRow ? spec.pad / 2 : 0;
    for (const item of row) if (item < own) tall = Math.max(tall, at(spec.heights, item));
    top.push(y);
    bottom.push(y + tall);
    y += tall;
    if (r + 1 === rows.length) return;
    const badge = kindsIn(row, ItemKind.Badge) || kindsIn(rows[r + 1] ?? [], ItemKind.Badge);
    const base = entryRow ? 12 : exits && r + 2 === rows.length ? 10 : badge ? BADGE_GAP : RANK_GAP;
    const bow = at(swing, r) < 2 ? 0 : Math.min(44, STUB + at(swing, r) * 0.07);
    y += base + bow;
  });
  return { top, bottom, total: exits ? y : y + spec.pad };
}
