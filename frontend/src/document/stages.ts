// Where the stages of a pipeline lie along the model's layers, for drawing: what they cost is the server's to say.

export interface Span {
  index: number;
  /** Units that the stage runs. */
  count: number;
  seconds: number;
  /** Shares of the strip. */
  left: number;
  width: number;
}

/** The stages as stretches of a strip on which a unit is as wide as its weight. */
export function spans(cuts: readonly number[], weights: readonly number[]): Span[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const before = (unit: number) => weights.slice(0, unit).reduce((sum, weight) => sum + weight, 0);
  return cuts.slice(0, -1).map((first, index) => {
    const end = cuts[index + 1] ?? weights.length;
    const seconds = before(end) - before(first);
    return {
      index,
      count: end - first,
      seconds,
      left: before(first) / total,
      width: seconds / total,
    };
  });
}

/** The unit whose beginning is nearest to a place on the strip, from 0 to 1. */
export function unitAt(weights: readonly number[], place: number): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  let [at, best, nearest] = [0, 0, Number.POSITIVE_INFINITY];
  weights.forEach((weight, unit) => {
    const far = Math.abs(at / total - place);
    if (far < nearest) [best, nearest] = [unit, far];
    at += weight;
  });
  return best;
}

/** The first and the last unit at which a stage may begin: every stage keeps one. */
export function limits(cuts: readonly number[], stage: number): [number, number] {
  return [(cuts[stage - 1] ?? 0) + 1, (cuts[stage + 1] ?? 1) - 1];
}

/** The cuts with one at another unit. */
export function moved(cuts: readonly number[], stage: number, unit: number): number[] {
  return cuts.map((cut, index) => (index === stage ? unit : cut));
}
