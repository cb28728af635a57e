/** What is where: a geometry with its model, found by id, by point and by window. */

import { BOX, GROUP } from "./art";
import { at, type Geometry, ShapeKind } from "./layout/types";
import { find, type Target } from "./model";
import type { Studio } from "./studio";

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type Hit =
  | { readonly kind: "box"; readonly shape: number; readonly row: number }
  | { readonly kind: "group"; readonly shape: number; readonly chevron: boolean }
  | { readonly kind: "badge"; readonly shape: number; readonly step: number }
  | { readonly kind: "link"; readonly tensor: number };

const BUCKET = 256;
/** What spans more buckets than this is looked at in every query. */
const WIDE = 24;

/** Finds the things whose vertical extent meets a window. */
class Buckets {
  private readonly lists = new Map<number, number[]>();
  private readonly wide: number[] = [];
  private readonly stamp: Uint32Array;
  private query = 0;

  constructor(top: Float32Array, bottom: Float32Array) {
    this.stamp = new Uint32Array(top.length);
    for (let i = 0; i < top.length; i += 1) {
      const first = Math.floor(at(top, i) / BUCKET);
      const last = Math.floor(at(bottom, i) / BUCKET);
      if (last - first > WIDE) {
        this.wide.push(i);
        continue;
      }
      for (let b = first; b <= last; b += 1) {
        const list = this.lists.get(b);
        if (list) list.push(i);
        else this.lists.set(b, [i]);
      }
    }
  }

  /** Return indices in ascending order, so that frames are painted before what is inside them. */
  within(top: number, bottom: number): number[] {
    this.query += 1;
    const found = [...this.wide];
    const last = Math.floor(bottom / BUCKET);
    for (let b = Math.floor(top / BUCKET); b <= last; b += 1) {
      for (const i of this.lists.get(b) ?? []) {
        if (this.stamp[i] === this.query) continue;
        this.stamp[i] = this.query;
        found.push(i);
      }
    }
    return found.sort((a, b) => a - b);
  }
}

export class Scene {
  readonly shapeOfBox: Int32Array;
  readonly shapeOfGroup: Int32Array;
  readonly shapeOfDelivery: Int32Array;
  private readonly shapes: Buckets;
  private readonly links: Buckets;
  private everyLink: number[] | null = null;
  private readonly everyShape: number[];

  constructor(
    readonly studio: Studio,
    readonly geometry: Geometry,
  ) {
    const { model } = studio;
    const { kind, ref, rect, linkStart, points } = geometry;
    this.shapeOfBox = new Int32Array(model.boxes.length).fill(-1);
    this.shapeOfGroup = new Int32Array(model.groups.length).fill(-1);
    this.shapeOfDelivery = new Int32Array(model.deliveries.length).fill(-1);
    const top = new Float32Array(kind.length);
    const bottom = new Float32Array(kind.length);
    this.everyShape = [];
    for (let shape = 0; shape < kind.length; shape += 1) {
      this.everyShape.push(shape);
      top[shape] = at(rect, 4 * shape + 1);
      bottom[shape] = at(rect, 4 * shape + 1) + at(rect, 4 * shape + 3);
      if (kind[shape] === ShapeKind.Box) this.shapeOfBox[at(ref, shape)] = shape;
      else if (kind[shape] === ShapeKind.Badge) this.shapeOfDelivery[at(ref, shape)] = shape;
      else this.shapeOfGroup[at(ref, shape)] = shape;
    }
    this.shapes = new Buckets(top, bottom);
    const count = geometry.linkTensor.length;
    const linkTop = new Float32Array(count);
    const linkBottom = new Float32Array(count);
    for (let link = 0; link < count; link += 1) {
      const [first, last] = [at(linkStart, link), at(linkStart, link + 1) - 1];
      linkTop[link] = Math.min(at(points, 2 * first + 1), at(points, 2 * last + 1));
      linkBottom[link] = Math.max(at(points, 2 * first + 1), at(points, 2 * last + 1));
    }
    this.links = new Buckets(linkTop, linkBottom);
  }

  rect(shape: number): Rect {
    const { rect } = this.geometry;
    return {
      x: at(rect, 4 * shape),
      y: at(rect, 4 * shape + 1),
      width: at(rect, 4 * shape + 2),
      height: at(rect, 4 * shape + 3),
    };
  }

  shapesWithin(top: number, bottom: number): readonly number[] {
    const all = top <= 0 && bottom >= this.geometry.height;
    return all ? this.everyShape : this.shapes.within(top, bottom);
  }

  linksWithin(top: number, bottom: number): readonly number[] {
    if (top > 0 || bottom < this.geometry.height) return this.links.within(top, bottom);
    this.everyLink ??= Array.from(this.geometry.linkTensor, (_, link) => link);
    return this.everyLink;
  }

  /** Return the shape that stands for a box or group now: its own, or that of the closed group that hides it. */
  shown(target: Target): number {
    const { model } = this.studio;
    let group = target.index;
    if (target.kind === "box") {
      const own = at(this.shapeOfBox, target.index);
      if (own >= 0) return own;
      group = model.boxes[target.index]?.parent ?? -1;
    }
    while (group >= 0) {
      const shape = at(this.shapeOfGroup, group);
      if (shape >= 0) return shape;
      group = model.groups[group]?.parent ?? -1;
    }
    return -1;
  }

  /** Return the shape of an id; -1 when it is hidden. */
  shapeOf(id: string): number {
    const target = find(this.studio.model, id);
    if (!target) return -1;
    return at(target.kind === "box" ? this.shapeOfBox : this.shapeOfGroup, target.index);
  }

  idOf(shape: number): string {
    const { model } = this.studio;
    const { kind, ref } = this.geometry;
    const index = at(ref, shape);
    if (kind[shape] === ShapeKind.Box) return model.boxes[index]?.id ?? "";
    if (kind[shape] !== ShapeKind.Badge) return model.groups[index]?.id ?? "";
    return "";
  }

  /** Return what is at a point; `slack` is how far beside a line still counts. */
  hit(x: number, y: number, slack: number): Hit | null {
    let frame: Hit | null = null;
    let solid: Hit | null = null;
    for (const shape of this.shapes.within(y, y)) {
      const r = this.rect(shape);
      if (x < r.x || x > r.x + r.width || y < r.y || y > r.y + r.height) continue;
      const kind = this.geometry.kind[shape];
      if (kind === ShapeKind.Badge) {
        const pills = this.studio.badges[at(this.geometry.ref, shape)]?.pills.length ?? 1;
        const step = Math.min(pills - 1, Math.floor(((y - r.y) / r.height) * pills));
        return { kind: "badge", shape, step };
      }
      if (kind === ShapeKind.Box) {
        const below = y - r.y - BOX.head;
        solid = { kind: "box", shape, row: below < 0 ? -1 : Math.floor(below / BOX.row) };
      } else if (kind === ShapeKind.Closed) {
        solid = { kind: "group", shape, chevron: inChevron(x - r.x, y - r.y - this.sheets(shape)) };
      } else if (y - r.y <= GROUP.header) {
        frame = { kind: "group", shape, chevron: inChevron(x - r.x, y - r.y) };
      }
    }
    if (solid) return solid;
    if (frame?.kind === "group" && frame.chevron) return frame;
    const tensor = this.tensorAt(x, y, slack);
    return tensor >= 0 ? { kind: "link", tensor } : frame;
  }

  private sheets(shape: number): number {
    return this.studio.groups[at(this.geometry.ref, shape)]?.sheets ?? 0;
  }

  private tensorAt(x: number, y: number, slack: number): number {
    let [best, nearest] = [-1, slack];
    for (const link of this.links.within(y - slack, y + slack)) {
      const distance = this.distance(link, x, y);
      if (distance < nearest) [best, nearest] = [at(this.geometry.linkTensor, link), distance];
    }
    return best;
  }

  private distance(link: number, x: number, y: number): number {
    const { linkStart, points } = this.geometry;
    let nearest = Number.POSITIVE_INFINITY;
    for (let p = at(linkStart, link); p + 1 < at(linkStart, link + 1); p += 1) {
      const [x1, y1] = [at(points, 2 * p), at(points, 2 * p + 1)];
      const [x2, y2] = [at(points, 2 * p + 2), at(points, 2 * p + 3)];
      const curved = x1 !== x2 && y1 !== y2;
      const pieces = curved ? 10 : 1;
      let [ax, ay] = [x1, y1];
      for (let i = 1; i <= pieces; i += 1) {
        const t = i / pieces;
        // The curve that is painted: upright tangents at both ends.
        const bx = curved ? x1 + (x2 - x1) * t * t * (3 - 2 * t) : x2;
        const by = curved ? y1 + (y2 - y1) * (1.5 * t * (1 - t) + t * t * t) : y2;
        nearest = Math.min(nearest, toSegment(x, y, ax, ay, bx, by));
        [ax, ay] = [bx, by];
      }
    }
    return nearest;
  }
}

function inChevron(x: number, y: number): boolean {
  return x < GROUP.chevron + 4 && y < GROUP.header;
}

function toSegment(x: number, y: number, ax: number, ay: number, bx: number, by: number): number {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / length));
  return Math.hypot(x - ax - t * dx, y - ay - t * dy);
}
