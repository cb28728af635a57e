// What of a rank's part is drawn how: kept, new, or held before only.
import type { RedistributionStep, Slices } from "../../api/types";
import { type Box, isEmpty, overlap } from "../../document/slices";

export interface Parts {
  /** What the rank holds now. */
  held: Box;
  /** What of it it held before, too; the whole part at the start. */
  kept: Box | null;
  arrived: readonly Box[];
  /** What it held before; null at the start and where nothing was dropped. */
  before: Box | null;
}

/** The parts of a rank in a state, with the state before and the step between them. */
export function partsOf(
  rank: number,
  now: Slices,
  before: Slices | undefined,
  step: RedistributionStep | undefined,
): Parts {
  const held: Box = now.slices[rank] ?? [];
  // Parts of another shape have no place in this one.
  const same = before?.shape.join() === now.shape.join();
  const earlier: Box | undefined = same ? before?.slices[rank] : undefined;
  if (!step || !earlier) {
    const arrived = step?.arrives[rank] ?? [];
    return { held, kept: isEmpty(held) ? null : held, arrived, before: null };
  }
  const arrived: readonly Box[] = step.arrives[rank] ?? [];
  const common = overlap(held, earlier);
  // Where a sum is finished, all that is there is new, although the rank had a share of it.
  const renewed = arrived.length === 1 && arrived[0]?.join() === held.join();
  const dropped = common === null || common.join() !== earlier.join();
  return {
    held,
    kept: renewed ? null : common,
    arrived,
    before: dropped && !isEmpty(earlier) ? earlier : null,
  };
}
