/** Art of a whole model in one direction, and the skeleton that the layout works on. */

import {
  type BadgeArt,
  type BoxArt,
  badgeArt,
  boxArt,
  type GroupArt,
  groupArt,
  type Measure,
} from "./art";
import type { Skeleton, Stem } from "./layout/types";
import type { Direction, GraphModel } from "./model";

export interface Studio {
  readonly model: GraphModel;
  readonly direction: Direction;
  readonly boxes: readonly BoxArt[];
  readonly groups: readonly GroupArt[];
  /** By delivery; null for those of the other direction. */
  readonly badges: readonly (BadgeArt | null)[];
  readonly skeleton: Skeleton;
}

export function makeStudio(model: GraphModel, direction: Direction, measure: Measure): Studio {
  // Identical layers share their art: a model of ten thousand operators has a few dozen kinds of box.
  const known = new Map<string, BoxArt>();
  const boxes = model.boxes.map((box) => {
    const { id: _, parent: __, ...looks } = box;
    const key = JSON.stringify(looks);
    const art = known.get(key) ?? boxArt(box, direction, measure);
    known.set(key, art);
    return art;
  });
  const groups = model.groups.map((group) => groupArt(group, direction, measure));
  const badges = model.deliveries.map((delivery) =>
    delivery.phase === direction ? badgeArt(delivery, measure) : null,
  );
  const skeleton: Skeleton = {
    groupParent: model.groups.map((group) => group.parent),
    groupRun: model.groups.map((group) => group.kind === "run"),
    groupClosed: groups.flatMap((art) => [art.width, art.height]),
    groupHeader: groups.flatMap((art) => [art.headerWidth, art.headerHeight]),
    boxParent: model.boxes.map((box) => box.parent),
    boxSize: boxes.flatMap((art) => [art.width, art.height]),
    stems: stemsOf(model, direction, badges),
  };
  return { model, direction, boxes, groups, badges, skeleton };
}

/** One stem for each delivery, and one for the readers that need none. */
function stemsOf(
  model: GraphModel,
  direction: Direction,
  badges: readonly (BadgeArt | null)[],
): Stem[] {
  const stems: Stem[] = [];
  model.tensors.forEach((tensor, index) => {
    const served = new Set<number>();
    for (const delivery of tensor.deliveries[direction]) {
      const readers = model.deliveries[delivery]?.readers ?? [];
      for (const reader of readers) served.add(reader);
      const { width = 0, height = 0 } = badges[delivery] ?? {};
      stems.push({ tensor: index, delivery, width, height, producer: tensor.producer, readers });
    }
    const direct = tensor.readers.filter((reader) => !served.has(reader));
    if (direct.length > 0) {
      const { producer } = tensor;
      stems.push({ tensor: index, delivery: -1, width: 0, height: 0, producer, readers: direct });
    }
  });
  return stems;
}
