/** The window on the scene: its size, its camera, and how the camera moves. */

import { type Camera, clampZoom, fitted, kept, revealed, zoomAt } from "./camera";
import type { Rect } from "./scene";

/** Below this zoom the graph can't be read, so it is not the first thing to see. */
const READABLE = 0.6;
const GLIDE_MS = 160;

export class Viewport {
  camera: Camera = { zoom: 1, x: 0, y: 0 };
  width = 0;
  height = 0;
  /** Size of the scene. */
  extent = { width: 0, height: 0 };
  /** Width at the right that the minimap lies on; what is revealed keeps clear of it. */
  covered = 0;
  private flight = 0;

  constructor(private readonly changed: () => void) {}

  /** Show the whole graph, unless that were unreadable: then its top. */
  first(): void {
    this.camera = fitted(this.bounds(), this.width, this.height);
    if (this.camera.zoom >= READABLE) return;
    const { width } = this.extent;
    const zoom = Math.min(1, Math.max(READABLE, (this.width - 48) / Math.max(1, width)));
    this.camera = { zoom, x: (this.width - width * zoom) / 2, y: 24 };
  }

  fit(): void {
    this.fly(fitted(this.bounds(), this.width, this.height));
  }

  zoomBy(factor: number): void {
    this.zoomTo(this.camera.zoom * factor);
  }

  zoomTo(zoom: number): void {
    this.fly(zoomAt(this.camera, clampZoom(zoom), this.width / 2, this.height / 2));
  }

  pan(dx: number, dy: number): void {
    this.move({ ...this.camera, x: this.camera.x + dx, y: this.camera.y + dy });
  }

  zoomAround(factor: number, x: number, y: number): void {
    this.move(zoomAt(this.camera, this.camera.zoom * factor, x, y));
  }

  /** Bring a point of the scene to the middle. */
  lookAt(x: number, y: number): void {
    const { zoom } = this.camera;
    this.move({ zoom, x: this.width / 2 - x * zoom, y: this.height / 2 - y * zoom });
  }

  center(rect: Rect): void {
    const zoom = Math.max(this.camera.zoom, READABLE);
    const tall = Math.min(rect.height, this.height / zoom);
    this.fly({
      zoom,
      x: this.width / 2 - (rect.x + rect.width / 2) * zoom,
      y: this.height / 2 - (rect.y + tall / 2) * zoom,
    });
  }

  reveal(rect: Rect): void {
    this.fly(revealed(this.camera, rect, this.width - this.covered, this.height));
  }

  toScene(x: number, y: number): { x: number; y: number } {
    const { camera } = this;
    return { x: (x - camera.x) / camera.zoom, y: (y - camera.y) / camera.zoom };
  }

  toScreen(rect: Rect): Rect {
    const { zoom, x, y } = this.camera;
    return {
      x: rect.x * zoom + x,
      y: rect.y * zoom + y,
      width: rect.width * zoom,
      height: rect.height * zoom,
    };
  }

  stop(): void {
    cancelAnimationFrame(this.flight);
  }

  private bounds(): Rect {
    return { x: 0, y: 0, ...this.extent };
  }

  private move(camera: Camera): void {
    this.stop();
    this.camera = kept(camera, this.bounds(), this.width, this.height);
    this.changed();
  }

  /** Glide to a camera, or jump for people who asked for less motion. */
  private fly(to: Camera): void {
    this.stop();
    if (globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches !== false) {
      this.camera = to;
      this.changed();
      return;
    }
    const from = this.camera;
    const start = performance.now();
    const tick = () => {
      const t = Math.min(1, (performance.now() - start) / GLIDE_MS);
      const eased = 1 - (1 - t) ** 3;
      const zoom = from.zoom * (to.zoom / from.zoom) ** eased;
      // The offset follows the zoom, so that the way looks straight.
      const zooming = Math.abs(to.zoom - from.zoom) > 1e-6;
      const share = zooming ? (zoom - from.zoom) / (to.zoom - from.zoom) : eased;
      this.camera = {
        zoom,
        x: from.x + (to.x - from.x) * share,
        y: from.y + (to.y - from.y) * share,
      };
      this.changed();
      if (t < 1) this.flight = requestAnimationFrame(tick);
    };
    tick();
  }
}
