// Buckets of gradients, as the API answers them; typed by what is read of them, so that the canvas can use this too.

/** Buckets that differ in their layers alone. */
export interface Alike {
  readonly gradients: number;
  readonly count: number;
  readonly collectives: number;
  readonly runs: number;
}

/** The numbers, from 1, of the buckets at a position: `3`, or `4–11` where it stands for several. */
export function bucketName(buckets: readonly Alike[], position: number): string {
  const before = buckets.slice(0, position).reduce((total, { count }) => total + count, 0);
  const count = buckets[position]?.count ?? 1;
  return count > 1 ? `${before + 1}–${before + count}` : `${before + 1}`;
}

/** The positions of the buckets that a collective is a part of, if any of them holds more than its gradient. */
export function sharedBuckets(
  buckets: readonly Alike[],
  badge: { readonly buckets?: readonly number[] } | undefined,
): readonly number[] {
  const positions = badge?.buckets ?? [];
  return positions.some((at) => (buckets[at]?.gradients ?? 0) > 1) ? positions : [];
}

/** How many collectives of a step they are. */
export function collectivesIn(alike: Alike | undefined): number {
  return alike ? alike.collectives * alike.runs : 0;
}
