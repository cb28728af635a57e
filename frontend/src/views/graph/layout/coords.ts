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
}

const GAP = 24;
const BEND_GAP = 16;
const ROUNDS = 6;

export function placeRows(placing: Placing): Float64Array {
  const { rows, segments, widths, bend } = placing;
  const count = widths.length;
  const x = new Float64Array(count);
  const above: number[][] = Array.from({ length: count }, () => []);
  const below: number[][] = Array.from({ length: count }, () => []);
  segments.upper.forEach((upper, s) => {
    below[upper]?.push(s);
    above[at(segments.lower, s)]?.push(s);
  });
  const gap = (a: number, b: number) =>
    (at(widths, a) + at(widths, b)) / 2 + (bend[a] && bend[b] ? BEND_GAP - 4 : bend[a] || bend[b] ? BEND_GAP : GAP);

  for (const row of rows) {
    let right = 0;
    row.forEach((item, i) => {
      right = i === 0 ? 0 : right + gap(row[i - 1] as number, item);
      x[item] = right;
    });
    for (const item of row) x[item] = at(x, item) - right / 2;
  }

  const wish = (item: number, up: boolean, down: boolean): [number, number] => {
    let sum = 0;
    let weight = 0;
    const add = (s: number, other: number, otherShare: number, ownShare: number) => {
      // Long lines are kept straight before boxes are kept in the middle.
      const w = bend[item] && bend[other] ? 8 : bend[item] || bend[other] ? 2 : 3;
      sum += w * (at(x, other) + otherShare * at(widths, other) - ownShare * at(widths, item));
      weight += w;
      return s;
    };
    if (up) {
      for (const s of above[item] as number[]) {
        add(s, at(segments.upper, s), at(segments.upperShare, s), at(segments.lowerShare, s));
      }
    }
    if (down) {
      for (const s of below[item] as number[]) {
        add(s, at(segments.lower, s), at(segments.lowerShare, s), at(segments.upperShare, s));
      }
    }
    return weight === 0 ? [at(x, item), 0.05] : [sum / weight, weight];
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
      for (let n = at(size, block); n > 0; n -= 1, i += 1) x[row[i] as number] = value + at(offsets, i);
    });
  };

  for (let round = 0; round < ROUNDS; round += 1) {
    for (let r = 1; r < rows.length; r += 1) settle(rows[r] as number[], true, false);
    for (let r = rows.length - 2; r >= 0; r -= 1) settle(rows[r] as number[], false, true);
  }
  for (let round = 0; round < 2; round += 1) {
    for (const row of rows) settle(row, true, true);
    for (let r = rows.length - 1; r >= 0; r -= 1) settle(rows[r] as number[], true, true);
  }
  straighten(placing, x, above, below, gap);
  return x;
}

/** Bring every long line, and boxes that are nearly in line, to one x where the neighbours leave room. */
function straighten(
  { rows, segments, widths, bend }: Placing,
  x: Float64Array,
  above: readonly number[][],
  below: readonly number[][],
  gap: (a: number, b: number) => number,
): void {
  const count = widths.length;
  const left = new Int32Array(count).fill(-1);
  const right = new Int32Array(count).fill(-1);
  for (const row of rows) {
    row.forEach((item, i) => {
      left[item] = row[i - 1] ?? -1;
      right[item] = row[i + 1] ?? -1;
    });
  }
  const room = (item: number): [number, number] => {
    const [l, r] = [at(left, item), at(right, item)];
    return [
      l < 0 ? Number.NEGATIVE_INFINITY : at(x, l) + gap(l, item),
      r < 0 ? Number.POSITIVE_INFINITY : at(x, r) - gap(item, r),
    ];
  };
  const port = (item: number, share: number) => at(x, item) + share * at(widths, item);

  const seen = new Uint8Array(count);
  for (let start = 0; start < count; start += 1) {
    if (!bend[start] || seen[start]) continue;
    const chain = [start];
    seen[start] = 1;
    for (let item = start; ; ) {
      const s = (below[item] as number[]).find((i) => bend[at(segments.lower, i)]);
      const next = s === undefined ? -1 : at(segments.lower, s);
      if (next < 0 || seen[next]) break;
      seen[next] = 1;
      chain.push(next);
      item = next;
    }
    // The line continues its ends where it can: fewer kinks than any mean.
    const ends: number[] = [];
    for (const s of above[start] as number[]) ends.push(port(at(segments.upper, s), at(segments.upperShare, s)));
    const tail = chain[chain.length - 1] as number;
    for (const s of below[tail] as number[]) ends.push(port(at(segments.lower, s), at(segments.lowerShare, s)));
    let run: number[] = [];
    let [low, high] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const flush = () => {
      if (run.length === 0) return;
      const mean = run.reduce((sum, item) => sum + at(x, item), 0) / run.length;
      const near = ends.find((end) => end >= low && end <= high);
      const target = near ?? Math.min(high, Math.max(low, mean));
      for (const item of run) x[item] = target;
    };
    for (const item of chain) {
      const [a, b] = room(item);
      if (Math.max(low, a) > Math.min(high, b)) {
        flush();
        run = [];
        [low, high] = [a, b];
      } else {
        [low, high] = [Math.max(low, a), Math.min(high, b)];
      }
      run.push(item);
    }
    flush();
  }

  // A box with one line in that misses it by a hair is moved into line.
  for (const row of rows) {
    for (const item of row) {
      const into = above[item] as number[];
      const s = into[0];
      if (bend[item] || into.length !== 1 || s === undefined) continue;
      const wanted =
        port(at(segments.upper, s), at(segments.upperShare, s)) - at(segments.lowerShare, s) * at(widths, item);
      const [a, b] = room(item);
      if (Math.abs(wanted - at(x, item)) < 14 && wanted >= a && wanted <= b) x[item] = wanted;
    }
  }
}
