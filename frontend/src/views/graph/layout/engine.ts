/** From a skeleton and the open groups to a geometry: one frame at a time, inner frames first. */

import { layoutFrame } from "./frame";
import { type Level, Lifting } from "./lift";
import { layoutRow } from "./row";
import {
  at,
  type FrameLayout,
  type FrameSpec,
  type Geometry,
  ItemKind,
  ShapeKind,
  type Skeleton,
} from "./types";

const FRAME_PAD = 16;
/** Frames kept; a frame takes about a kilobyte. */
const CACHE_LIMIT = 20_000;

export class LayoutEngine {
  /**
   * Frames by structure: sizes of what is inside and links by position, never by name, so that identical layers share
   * one frame.
   */
  private readonly cache = new Map<string, FrameLayout>();
  private lastId = 0;

  layout(skeleton: Skeleton, open: readonly boolean[]): Geometry {
    const { levels } = new Lifting(skeleton, open);
    const frames: (FrameLayout | null)[] = levels.map(() => null);
    let [runs, hits] = [0, 0];
    // Children stand behind their parents in the list, so from its end every inner frame is ready in time.
    for (let index = levels.length - 1; index >= 0; index -= 1) {
      const level = levels[index];
      if (!level) continue;
      const spec = specOf(skeleton, level, frames);
      const key = keyOf(spec);
      let frame = this.cache.get(key);
      if (frame) hits += 1;
      else {
        runs += 1;
        this.lastId += 1;
        frame = spec.row ? layoutRow(spec, this.lastId) : layoutFrame(spec, this.lastId);
        if (this.cache.size >= CACHE_LIMIT) this.cache.clear();
        this.cache.set(key, frame);
      }
      frames[index] = frame;
    }
    return emit(skeleton, levels, frames, runs, hits);
  }
}

function specOf(
  skeleton: Skeleton,
  level: Level,
  frames: readonly (FrameLayout | null)[],
): FrameSpec {
  const widths: number[] = [];
  const heights: number[] = [];
  const inner: (FrameLayout | null)[] = [];
  let folded = 0;
  level.kinds.forEach((kind, item) => {
    const ref = at(level.refs, item);
    const frame = level.groups[item] ? (frames[ref + 1] ?? null) : null;
    inner.push(frame);
    if (kind === ItemKind.Entry || kind === ItemKind.Exit) {
      widths.push(0);
      heights.push(0);
    } else if (kind === ItemKind.Badge) {
      widths.push(skeleton.stems[ref]?.width ?? 0);
      heights.push(skeleton.stems[ref]?.height ?? 0);
    } else if (frame) {
      widths.push(frame.width);
      heights.push(frame.height);
    } else {
      const sizes = level.groups[item] ? skeleton.groupClosed : skeleton.boxSize;
      widths.push(at(sizes, 2 * ref));
      heights.push(at(sizes, 2 * ref + 1));
      if (level.groups[item] && skeleton.groupRun[ref]) folded += 1;
    }
  });
  const boxes = level.kinds.filter((kind) => kind === ItemKind.Box).length;
  const { group } = level;
  return {
    kinds: level.kinds,
    widths,
    heights,
    inner,
    links: level.links,
    headerWidth: group < 0 ? 0 : at(skeleton.groupHeader, 2 * group),
    headerHeight: group < 0 ? 0 : at(skeleton.groupHeader, 2 * group + 1),
    pad: group < 0 ? 0 : FRAME_PAD,
    row: boxes > 1 && folded === boxes,
  };
}

function keyOf(spec: FrameSpec): string {
  const parts: string[] = [`${spec.headerWidth},${spec.headerHeight},${spec.pad},${spec.row}`];
  spec.kinds.forEach((kind, item) => {
    const inner = spec.inner[item];
    parts.push(inner ? `f${inner.id}` : `${kind}:${spec.widths[item]},${spec.heights[item]}`);
  });
  parts.push("|");
  for (const link of spec.links) {
    parts.push(`${link.source}.${link.sourcePort}>${link.targets.join(".")}`);
  }
  return parts.join(" ");
}

/** Put every frame at its place and write all shapes and lines into flat arrays. */
function emit(
  skeleton: Skeleton,
  levels: readonly (Level | null)[],
  frames: readonly (FrameLayout | null)[],
  runs: number,
  hits: number,
): Geometry {
  let [shapes, links, coordinates] = [0, 0, 0];
  levels.forEach((level, index) => {
    const frame = frames[index];
    if (!level || !frame) return;
    for (const kind of level.kinds) {
      if (kind === ItemKind.Box || kind === ItemKind.Badge) shapes += 1;
    }
    links += frame.routes.length;
    for (const route of frame.routes) coordinates += route.points.length;
  });
  const root = frames[0];
  const kind = new Uint8Array(shapes);
  const ref = new Int32Array(shapes);
  const depth = new Uint8Array(shapes);
  const rect = new Float32Array(4 * shapes);
  const linkTensor = new Int32Array(links);
  const linkDelivery = new Int32Array(links);
  const linkFlags = new Uint8Array(links);
  const linkStart = new Int32Array(links + 1);
  const points = new Float32Array(coordinates);
  const originX = new Float64Array(levels.length);
  const originY = new Float64Array(levels.length);
  const nesting = new Uint8Array(levels.length);
  let [shape, link, point] = [0, 0, 0];

  levels.forEach((level, index) => {
    const frame = frames[index];
    if (!level || !frame) return;
    const [left, top] = [at(originX, index), at(originY, index)];
    level.kinds.forEach((itemKind, item) => {
      if (itemKind !== ItemKind.Box && itemKind !== ItemKind.Badge) return;
      const itemRef = at(level.refs, item);
      const [x, y] = [left + at(frame.x, item), top + at(frame.y, item)];
      const inner = level.groups[item] ? frames[itemRef + 1] : null;
      let [width, height] = [0, 0];
      depth[shape] = at(nesting, index);
      ref[shape] = itemRef;
      if (itemKind === ItemKind.Badge) {
        const stem = skeleton.stems[itemRef];
        [width, height] = [stem?.width ?? 0, stem?.height ?? 0];
        kind[shape] = ShapeKind.Badge;
        ref[shape] = stem?.delivery ?? -1;
      } else if (inner) {
        [width, height] = [inner.width, inner.height];
        kind[shape] = ShapeKind.Frame;
        originX[itemRef + 1] = x;
        originY[itemRef + 1] = y;
        nesting[itemRef + 1] = at(nesting, index) + 1;
      } else {
        const sizes = level.groups[item] ? skeleton.groupClosed : skeleton.boxSize;
        [width, height] = [at(sizes, 2 * itemRef), at(sizes, 2 * itemRef + 1)];
        kind[shape] = level.groups[item] ? ShapeKind.Closed : ShapeKind.Box;
      }
      rect.set([x, y, width, height], 4 * shape);
      shape += 1;
    });
    for (const route of frame.routes) {
      const stem = skeleton.stems[at(level.stems, route.link)];
      linkTensor[link] = stem?.tensor ?? -1;
      linkDelivery[link] = stem?.delivery ?? -1;
      linkFlags[link] = route.flags;
      linkStart[link] = point / 2;
      for (let p = 0; p < route.points.length; p += 2, point += 2) {
        points[point] = left + at(route.points, p);
        points[point + 1] = top + at(route.points, p + 1);
      }
      link += 1;
    }
  });
  linkStart[links] = point / 2;
  return {
    width: root?.width ?? 0,
    height: root?.height ?? 0,
    kind,
    ref,
    depth,
    rect,
    linkTensor,
    linkDelivery,
    linkFlags,
    linkStart,
    points,
    runs,
    hits,
  };
}
