/** Follow edges by keyboard, between the boxes that are visible. */

import { ShapeKind } from "./layout/types";
import type { Scene } from "./scene";

export type Way = "producer" | "reader" | "left" | "right";

interface Neighbours {
  readonly producers: ReadonlyMap<number, readonly number[]>;
  readonly readers: ReadonlyMap<number, readonly number[]>;
}

const KNOWN = new WeakMap<Scene, Neighbours>();

/** Return the shapes that make what a shape reads, and those that read what it makes. */
export function neighbours(scene: Scene): Neighbours {
  const known = KNOWN.get(scene);
  if (known) return known;
  const producers = new Map<number, number[]>();
  const readers = new Map<number, number[]>();
  const add = (map: Map<number, number[]>, from: number, to: number) => {
    const list = map.get(from);
    if (!list) map.set(from, [to]);
    else if (!list.includes(to)) list.push(to);
  };
  for (const tensor of scene.studio.model.tensors) {
    const made = scene.shown({ kind: "box", index: tensor.producer });
    for (const reader of tensor.readers) {
      const read = scene.shown({ kind: "box", index: reader });
      if (made < 0 || read < 0 || made === read) continue;
      add(readers, made, read);
      add(producers, read, made);
    }
  }
  const found = { producers, readers };
  KNOWN.set(scene, found);
  return found;
}

/** Return the shape that a key leads to; -1 if it leads nowhere. */
export function step(scene: Scene, from: number, way: Way): number {
  if (from < 0) return first(scene);
  const own = scene.rect(from);
  const centre = own.x + own.width / 2;
  const distance = (shape: number) => {
    const r = scene.rect(shape);
    return Math.abs(r.x + r.width / 2 - centre) + 0.01 * Math.abs(r.y - own.y);
  };
  const nearest = (shapes: readonly number[]) =>
    shapes.reduce(
      (best, shape) => (best < 0 || distance(shape) < distance(best) ? shape : best),
      -1,
    );
  if (way === "producer" || way === "reader") {
    const map = neighbours(scene)[way === "producer" ? "producers" : "readers"];
    const found = nearest(map.get(from) ?? []);
    if (found >= 0 || scene.geometry.kind[from] !== ShapeKind.Frame) return found;
    return way === "reader" ? inside(scene, from) : -1;
  }
  const beside = scene.shapesWithin(own.y, own.y + own.height).filter((shape) => {
    const r = scene.rect(shape);
    const alike = scene.geometry.depth[shape] === scene.geometry.depth[from];
    const right = r.x + r.width / 2 > centre;
    const solid = scene.geometry.kind[shape] !== ShapeKind.Badge;
    const level = r.y < own.y + own.height && r.y + r.height > own.y;
    return shape !== from && alike && solid && level && right === (way === "right");
  });
  return nearest(beside);
}

function first(scene: Scene): number {
  return scene.geometry.kind.findIndex((kind) => kind !== ShapeKind.Badge);
}

/** Return the topmost box in a frame. */
function inside(scene: Scene, frame: number): number {
  const outer = scene.rect(frame);
  let best = -1;
  for (const shape of scene.shapesWithin(outer.y, outer.y + outer.height)) {
    const r = scene.rect(shape);
    const kind = scene.geometry.kind[shape];
    const solid = kind === ShapeKind.Box || kind === ShapeKind.Closed;
    const within = r.x >= outer.x && r.x + r.width <= outer.x + outer.width && r.y > outer.y;
    if (solid && within && (best < 0 || r.y < scene.rect(best).y)) best = shape;
  }
  return best;
}
