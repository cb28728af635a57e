/** What stays where it is on screen while everything around it is laid out anew. */

import type { Camera } from "./camera";
import { ShapeKind } from "./layout/types";
import { find } from "./model";
import type { Scene } from "./scene";
import type { Viewport } from "./viewport";

export interface Anchor {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  /** Whether it is a group that was opened. */
  readonly opened: boolean;
}

export function anchorOf(
  scene: Scene,
  viewport: Viewport,
  id: string,
  opened = false,
): Anchor | null {
  const shape = scene.shapeOf(id);
  if (shape < 0) return null;
  const { x, y } = viewport.toScreen(scene.rect(shape));
  return { id, x, y, opened };
}

/** Return what is selected, if it is in view, else the box nearest to the middle. */
export function viewAnchor(
  scene: Scene,
  viewport: Viewport,
  selected: string | null,
): Anchor | null {
  const own = selected ? scene.shapeOf(selected) : -1;
  if (own >= 0) {
    const { x, y, width, height } = viewport.toScreen(scene.rect(own));
    const inView = x > -width && x < viewport.width && y > -height && y < viewport.height;
    if (selected && inView) return anchorOf(scene, viewport, selected);
  }
  const middle = viewport.toScene(viewport.width / 2, viewport.height / 2);
  const top = viewport.toScene(0, 0).y;
  const bottom = viewport.toScene(0, viewport.height).y;
  let [best, nearest] = [-1, Number.POSITIVE_INFINITY];
  for (const shape of scene.shapesWithin(top, bottom)) {
    const kind = scene.geometry.kind[shape];
    if (kind === ShapeKind.Badge || kind === ShapeKind.Frame) continue;
    const rect = scene.rect(shape);
    const away = Math.hypot(
      rect.x + rect.width / 2 - middle.x,
      rect.y + rect.height / 2 - middle.y,
    );
    if (away < nearest) [best, nearest] = [shape, away];
  }
  return best < 0 ? null : anchorOf(scene, viewport, scene.idOf(best));
}

/** Return the camera under which an anchor of the last scene is where it was. */
export function holding(scene: Scene, { camera, width }: Viewport, anchor: Anchor): Camera {
  const target = find(scene.studio.model, anchor.id);
  const shape = target ? scene.shown(target) : -1;
  if (shape < 0) return camera;
  const rect = scene.rect(shape);
  const { zoom } = camera;
  // A frame that grew out of the window moves sideways as far as it takes to see its middle, never up or down.
  const middle = anchor.x + (rect.width / 2) * zoom;
  const aside = anchor.opened ? Math.min(0, width * 0.7 - middle) : 0;
  return { zoom, x: anchor.x + aside - rect.x * zoom, y: anchor.y - rect.y * zoom };
}
