/** Where the window stands over the scene: screen = world · zoom + offset, in CSS pixels. */

import type { Rect } from "./scene";

export interface Camera {
  readonly zoom: number;
  readonly x: number;
  readonly y: number;
}

export const ZOOM = { least: 0.01, most: 4, step: 1.25 };

export function clampZoom(zoom: number): number {
  return Math.min(ZOOM.most, Math.max(ZOOM.least, zoom));
}

export function zoomAt(camera: Camera, zoom: number, x: number, y: number): Camera {
  const next = clampZoom(zoom);
  const share = next / camera.zoom;
  return { zoom: next, x: x - (x - camera.x) * share, y: y - (y - camera.y) * share };
}

/** Show a rectangle as a whole, at most at 1:1. */
export function fitted(rect: Rect, width: number, height: number, margin = 24): Camera {
  const zoom = clampZoom(
    Math.min(
      1,
      (width - 2 * margin) / Math.max(1, rect.width),
      (height - 2 * margin) / Math.max(1, rect.height),
    ),
  );
  return {
    zoom,
    x: (width - rect.width * zoom) / 2 - rect.x * zoom,
    y: (height - rect.height * zoom) / 2 - rect.y * zoom,
  };
}

/** Keep a part of the scene in the window, so that it can't be lost by panning. */
export function kept(camera: Camera, scene: Rect, width: number, height: number): Camera {
  const least = 60;
  const [w, h] = [scene.width * camera.zoom, scene.height * camera.zoom];
  return {
    zoom: camera.zoom,
    x: Math.min(width - least, Math.max(least - w, camera.x)),
    y: Math.min(height - least, Math.max(least - h, camera.y)),
  };
}

/** Move the camera no more than it takes to bring a rectangle into the window. */
export function revealed(camera: Camera, rect: Rect, width: number, height: number): Camera {
  const margin = 40;
  const shift = (low: number, size: number, room: number) => {
    if (size > room - 2 * margin) return margin - low;
    if (low < margin) return margin - low;
    return Math.min(0, room - margin - (low + size));
  };
  const [left, top] = [rect.x * camera.zoom + camera.x, rect.y * camera.zoom + camera.y];
  return {
    zoom: camera.zoom,
    x: camera.x + shift(left, rect.width * camera.zoom, width),
    y: camera.y + shift(top, rect.height * camera.zoom, height),
  };
}
