/**
 * x of every item: near the middle of its neighbours, in the given order, without overlaps.
 *
 * A rank is placed by least squares under the separations: with offsets taken off, the wanted positions only have to be
 * made non-decreasing, which pooling neighbours that collide does exactly.
 */

import type { Segments } from "./order";
import { at } from "./types";

export interface Placing {
  readonly rows: readonly number[][];
  readonly segments: Segments;
  readonly widths: readonly number[];
  /** Items that only carry a line through a rank. */
  readonly bend: readonly boolean[];
  /** Bends of lines past many ranks, such as residuals: these swing out, so that the trunk stays straight. */
  readonly bypass: readonly boolean[];
}

const GAP = 24;
const BEND_GAP = 16;
const ROUNDS = 6;

export function placeRows(placing: Placing): Float64Array {
  const { rows, segments, widths, bend, bypass } = placing;
  const count = widths.length;
  const x = new Float64Array(count);
  const above: number[][] = Array.from({ length: count }, () => []);
  const below: number[][] = Array.from({ length: count }, () => []);
  segments.upper.forEach((upper, s) => {
    below[upper]?.push(s);
    above[at(segments.lower, s)]?.push(s);
  });
  const gap = (a: number, b: number) =>
    (at(widths, a) + at(widths, b)) / 2 +
    (bend[a] && bend[b] ? BEND_GAP - 4 : bend[a] || bend[b] ? BEND_GAP : GAP);

  for (const row of rows) {
    let right = 0;
    row.forEach((item, i) => {
      right = i === 0 ? 0 : right + gap(row[i - 1] as number, item);
      x[item] = right;
    });
    for (const item of row) x[item] = at(x, item) - right / 2;
  }

  const wish = (item: number, up: boolean, down: boolean): [number, number] => {
    const wanted: [number, number][] = [];
    const add = (other: number, otherShare: number, ownShare: number) => {
      const x1 = at(x, other) + otherShare * at(widths, other) - ownShare * at(widths, item);
      wanted.push([x1, pull(item, other)]);
    };
    if (up) {
      for (const s of above[item] as number[]) {
        add(at(segments.upper, s), at(segments.upperShare, s), at(segments.lowerShare, s));
      }
    }
    if (down) {
      for (const s of below[item] as number[]) {
        add(at(segments.lower, s), at(segments.lowerShare, s), at(segments.upperShare, s));
      }
    }
    if (wanted.length === 0) return [at(x, item), 0.05];
    // Boxes stand firm; a line gives way to them.
    return [weightedMedian(wanted), bend[item] ? 0.02 : wanted.reduce((sum, [, w]) => sum + w, 0)];
  };
  // What comes in from the side, such as a table that all layers read, does not draw the trunk aside.
  const first = new Set(rows[0]);
  const side = (item: number) => above[item]?.length === 0 && !first.has(item) && !bend[item];
  const pull = (item: number, other: number) => {
    if (bypass[item] || bypass[other]) return bypass[item] && bypass[other] ? 8 : 0.02;
    if (bend[item] && bend[other]) return 8;
    return bend[item] || bend[other] || side(item) || side(other) ? 1 : 3;
  };

  const settle = (row: readonly number[], up: boolean, down: boolean) => {
    const mean: number[] = [];
    const weight: number[] = [];
    const size: number[] = [];
    const offsets: number[] = [];
    let offset = 0;
    row.forEach((item, i) => {
      if (i > 0) offset += gap(row[i - 1] as number, item);
      offsets.push(offset);
      const [target, w] = wish(item, up, down);
      mean.push(target - offset);
      weight.push(w);
      size.push(1);
      while (mean.length > 1 && at(mean, mean.length - 2) > at(mean, mean.length - 1)) {
        const [m, v, n] = [mean.pop() as number, weight.pop() as number, size.pop() as number];
        const last = mean.length - 1;
        const sum = at(weight, last) + v;
        mean[last] = (at(mean, last) * at(weight, last) + m * v) / sum;
        weight[last] = sum;
        size[last] = at(size, last) + n;
      }
    });
    let i = 0;
    mean.forEach((value, block) => {
      for (let n = at(size, block); n > 0; n -= 1, i += 1)
        x[row[i] as number] = value + at(offsets, i);
    });
  };

  for (let round = 0; round < ROUNDS; round += 1) {
    for (let r = 1; r < rows.length; r += 1) settle(rows[r] as number[], true, false);
    for (let r = rows.length - 2; r >= 0; r -= 1) settle(rows[r] as number[], false, true);
  }
  straighten(placing, { x, above, below, gap, pull });
  recentre(rows, widths, x);
  return x;
}

/**
 * Keep the ranks above each other. Where inner frames are left at another x than they are entered, straight lines would
 * lead ever further aside; ranks from there on are shifted back as a whole, which bends lines at one place only.
 */
function recentre(rows: readonly number[][], widths: readonly number[], x: Float64Array): void {
  const spans = rows.map((row) => {
    const [first, last] = [row[0] ?? 0, row[row.length - 1] ?? 0];
    return [at(x, first) - at(widths, first) / 2, at(x, last) + at(widths, last) / 2] as const;
  });
  const widest = spans.reduce((most, [low, high]) => Math.max(most, high - low), 0);
  const room = Math.max(240, widest);
  let shift = 0;
  let middle = 0;
  spans.forEach(([low, high], r) => {
    const centre = (low + high) / 2;
    if (r === 0) middle = centre;
    if (Math.abs(centre + shift - middle) > room) shift = middle - centre;
    for (const item of rows[r] as number[]) x[item] = at(x, item) + shift;
  });
}

/** Return the median, so that one neighbour of three is met straight; the middle of two alike. */
function weightedMedian(values: [number, number][]): number {
  if (values.length === 1) return values[0]?.[0] ?? 0;
  values.sort((a, b) => a[0] - b[0]);
  const half = values.reduce((sum, [, w]) => sum + w, 0) / 2;
  let sum = 0;
  for (let i = 0; i < values.length; i += 1) {
    const [value, weight] = values[i] as [number, number];
    sum += weight;
    if (Math.abs(sum - half) < 1e-9) return (value + (values[i + 1]?.[0] ?? value)) / 2;
    if (sum > half) return value;
  }
  return 0;
}

interface Field {
  readonly x: Float64Array;
  readonly above: readonly number[][];
  readonly below: readonly number[][];
  gap(a: number, b: number): number;
  pull(item: number, other: number): number;
}

/** A member of a column and how far its middle is from the column's line. */
type Column = { item: number; offset: number }[];

const PASSES = 4;

/**
 * Bring boxes and long lines that follow each other to one x. Two neighbours are in one column when each is the median
 * of the other's neighbours; a column moves as far as the items beside it leave room, and is cut where they don't.
 */
function straighten({ rows, segments, widths, bend }: Placing, field: Field): void {
  const { x, gap } = field;
  const left = new Int32Array(widths.length).fill(-1);
  const right = new Int32Array(widths.length).fill(-1);
  for (const row of rows) {
    row.forEach((item, i) => {
      left[item] = row[i - 1] ?? -1;
      right[item] = row[i + 1] ?? -1;
    });
  }
  const columns = columnsOf(rows, segments, widths, field);
  for (let pass = 0; pass < PASSES; pass += 1) {
    // Both ways by turns: what is first in one pass has room made for it in the next.
    const order = pass % 2 === 0 ? columns : [...columns].reverse();
    for (const column of order) alignColumn(column);
  }

  function alignColumn(column: Column): void {
    let run: Column = [];
    let [low, high] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const flush = () => {
      let [sum, weight] = [0, 0];
      for (const { item, offset } of run) {
        const w = bend[item] ? 0.02 : 1;
        sum += w * (at(x, item) - offset);
        weight += w;
      }
      if (weight === 0) return;
      const line = Math.min(high, Math.max(low, sum / weight));
      for (const { item, offset } of run) x[item] = line + offset;
    };
    for (const member of column) {
      const { item, offset } = member;
      const [l, r] = [at(left, item), at(right, item)];
      const a = (l < 0 ? Number.NEGATIVE_INFINITY : at(x, l) + gap(l, item)) - offset;
      const b = (r < 0 ? Number.POSITIVE_INFINITY : at(x, r) - gap(item, r)) - offset;
      if (Math.max(low, a) > Math.min(high, b)) {
        flush();
        run = [];
        [low, high] = [a, b];
      } else {
        [low, high] = [Math.max(low, a), Math.min(high, b)];
      }
      run.push(member);
    }
    flush();
  }
}

function columnsOf(
  rows: readonly number[][],
  segments: Segments,
  widths: readonly number[],
  { x, above, below, pull }: Field,
): Column[] {
  /** The segment to the neighbour in the middle; -1 where two are in the middle. */
  const middle = (
    touching: readonly number[],
    item: number,
    ends: readonly number[],
    shares: readonly number[],
  ): number => {
    if (touching.length < 2) return touching[0] ?? -1;
    const values = touching.map((s) => {
      const other = at(ends, s);
      return { s, at: at(x, other) + at(shares, s) * at(widths, other), weight: pull(item, other) };
    });
    values.sort((a, b) => a.at - b.at);
    const half = values.reduce((sum, value) => sum + value.weight, 0) / 2;
    let sum = 0;
    for (const value of values) {
      sum += value.weight;
      if (Math.abs(sum - half) < 1e-9) return -1;
      if (sum > half) return value.s;
    }
    return -1;
  };
  const down = new Int32Array(widths.length).fill(-1);
  const joined = new Uint8Array(widths.length);
  for (const row of rows) {
    for (const item of row) {
      const s = middle(below[item] as number[], item, segments.lower, segments.lowerShare);
      if (s < 0) continue;
      const lower = at(segments.lower, s);
      if (middle(above[lower] as number[], lower, segments.upper, segments.upperShare) !== s)
        continue;
      down[item] = s;
      joined[lower] = 1;
    }
  }
  const columns: Column[] = [];
  for (const row of rows) {
    for (const top of row) {
      if (joined[top]) continue;
      const column: Column = [{ item: top, offset: 0 }];
      let [item, offset] = [top, 0];
      for (let s = at(down, item); s >= 0; s = at(down, item)) {
        const lower = at(segments.lower, s);
        offset +=
          at(segments.upperShare, s) * at(widths, item) -
          at(segments.lowerShare, s) * at(widths, lower);
        item = lower;
        column.push({ item, offset });
      }
      columns.push(column);
    }
  }
  return columns;
}
