/** Order of the items in each rank: barycentre sweeps; the order with the fewest crossings wins. */

import { at } from "./types";

/** Parts of a line between neighbouring ranks. Offsets are from the middle of an item, in shares of its width. */
export interface Segments {
  readonly upper: number[];
  readonly lower: number[];
  readonly upperShare: number[];
  readonly lowerShare: number[];
}

const SWEEPS = 6;

export function orderRows(rows: number[][], segments: Segments, count: number): number[][] {
  const place = new Float64Array(count);
  const above: number[][] = Array.from({ length: count }, () => []);
  const below: number[][] = Array.from({ length: count }, () => []);
  segments.upper.forEach((upper, s) => {
    below[upper]?.push(s);
    above[at(segments.lower, s)]?.push(s);
  });
  const number = (row: readonly number[]) => {
    row.forEach((item, index) => {
      place[item] = index;
    });
  };
  let current = rows.map((row) => [...row]);
  current.forEach(number);
  let best = current.map((row) => [...row]);
  let fewest = crossings(current, segments, below, place);

  const pull = (row: number[], down: boolean): number[] => {
    const keys = row.map((item) => {
      const touching = (down ? above : below)[item] as number[];
      if (touching.length === 0) return at(place, item);
      let sum = 0;
      for (const s of touching) {
        const other = at(down ? segments.upper : segments.lower, s);
        sum += at(place, other) + at(down ? segments.upperShare : segments.lowerShare, s);
      }
      return sum / touching.length;
    });
    // The sort is stable, so that equals stay in the order of the model.
    const sorted = row.map((_, index) => index).sort((a, b) => at(keys, a) - at(keys, b));
    return sorted.map((index) => row[index] as number);
  };

  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    const next = [...current];
    for (let step = 1; step < next.length; step += 1) {
      const r = down ? step : next.length - 1 - step;
      const row = pull(next[r] as number[], down);
      next[r] = row;
      number(row);
    }
    current = next;
    const found = crossings(current, segments, below, place);
    if (found < fewest) {
      fewest = found;
      best = current.map((row) => [...row]);
    }
  }
  return best;
}

/** Count crossings between all neighbouring ranks with a tree of counts, in n log n. */
function crossings(
  rows: readonly number[][],
  segments: Segments,
  below: readonly number[][],
  place: Float64Array,
): number {
  let total = 0;
  for (let r = 0; r + 1 < rows.length; r += 1) {
    const ends: number[] = [];
    for (const item of rows[r] as number[]) {
      const own = [...(below[item] as number[])];
      own.sort(
        (a, b) =>
          at(segments.upperShare, a) - at(segments.upperShare, b) ||
          endOf(segments, place, a) - endOf(segments, place, b),
      );
      for (const s of own) ends.push(endOf(segments, place, s));
    }
    if (ends.length > 1) total += inversions(ends);
  }
  return total;
}

function endOf(segments: Segments, place: Float64Array, s: number): number {
  return at(place, at(segments.lower, s)) + at(segments.lowerShare, s);
}

function inversions(values: readonly number[]): number {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  const index = new Map(sorted.map((value, i) => [value, i + 1]));
  const tree = new Int32Array(sorted.length + 1);
  let total = 0;
  values.forEach((value, seen) => {
    let notAbove = 0;
    const own = index.get(value) ?? 0;
    for (let i = own; i > 0; i -= i & -i) notAbove += at(tree, i);
    total += seen - notAbove;
    for (let i = own; i < tree.length; i += i & -i) tree[i] = at(tree, i) + 1;
  });
  return total;
}
