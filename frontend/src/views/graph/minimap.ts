/** The whole graph in a corner, with the window on it; a click or drag moves the window. */

import { at, ShapeKind } from "./layout/types";
import type { Scene } from "./scene";
import type { Theme } from "./theme";
import type { Viewport } from "./viewport";

const SIZE = { width: 112, height: 176, pad: 6 };
/** Its distance from the corner, on both sides of it. */
const GAP = 12;
/** It may take at most these parts of the canvas; in a smaller one it would hide what it leads to. */
const SHARE = { width: 1 / 5, height: 2 / 5 };

export class Minimap {
  readonly canvas = document.createElement("canvas");
  private picture: HTMLCanvasElement | null = null;
  private painted: { scene: Scene; theme: Theme; ratio: number } | null = null;
  private scale = 1;

  constructor(host: HTMLElement, moveTo: (x: number, y: number) => void) {
    this.canvas.className = "graph-minimap";
    this.canvas.setAttribute("aria-hidden", "true");
    const move = (event: PointerEvent) => {
      const bounds = this.canvas.getBoundingClientRect();
      const [x, y] = [
        event.clientX - bounds.left - SIZE.pad,
        event.clientY - bounds.top - SIZE.pad,
      ];
      moveTo(x / this.scale, y / this.scale);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture?.(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) move(event);
    });
    host.append(this.canvas);
  }

  paint(scene: Scene, viewport: Viewport, theme: Theme, ratio: number): void {
    const { camera, width, height } = viewport;
    const { geometry } = scene;
    const all =
      geometry.width * camera.zoom <= width * 1.02 &&
      geometry.height * camera.zoom <= height * 1.02;
    const fits = SIZE.width <= width * SHARE.width && SIZE.height <= height * SHARE.height;
    this.canvas.hidden = all || !fits;
    viewport.covered = this.canvas.hidden ? 0 : SIZE.width + 2 * GAP;
    if (this.canvas.hidden) return;
    const { painted } = this;
    if (painted?.scene !== scene || painted.theme !== theme || painted.ratio !== ratio) {
      this.draw(scene, theme, ratio);
      this.painted = { scene, theme, ratio };
    }
    const pen = this.canvas.getContext("2d");
    if (!pen || !this.picture) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.picture, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, SIZE.pad * ratio, SIZE.pad * ratio);
    const s = this.scale;
    const [x, y] = [
      Math.max(-3, (-camera.x / camera.zoom) * s),
      Math.max(-3, (-camera.y / camera.zoom) * s),
    ];
    const right = Math.min(geometry.width * s + 3, ((width - camera.x) / camera.zoom) * s);
    const bottom = Math.min(geometry.height * s + 3, ((height - camera.y) / camera.zoom) * s);
    pen.fillStyle = theme.halo;
    pen.strokeStyle = theme.select;
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.roundRect(x, y, Math.max(4, right - x), Math.max(3, bottom - y), 2);
    pen.fill();
    pen.stroke();
  }

  private draw(scene: Scene, theme: Theme, ratio: number): void {
    const { geometry } = scene;
    const [roomX, roomY] = [SIZE.width - 2 * SIZE.pad, SIZE.height - 2 * SIZE.pad];
    this.scale = Math.min(
      roomX / Math.max(1, geometry.width),
      roomY / Math.max(1, geometry.height),
      0.25,
    );
    const width = Math.ceil(Math.max(16, geometry.width * this.scale) + 2 * SIZE.pad);
    const height = Math.ceil(Math.max(16, geometry.height * this.scale) + 2 * SIZE.pad);
    this.picture ??= document.createElement("canvas");
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.picture.getContext("2d");
    if (!pen) return;
    pen.setTransform(
      ratio * this.scale,
      0,
      0,
      ratio * this.scale,
      SIZE.pad * ratio,
      SIZE.pad * ratio,
    );
    for (let shape = 0; shape < geometry.kind.length; shape += 1) {
      const r = scene.rect(shape);
      const kind = geometry.kind[shape];
      if (kind === ShapeKind.Badge || r.height * this.scale < 0.6) continue;
      const frame = theme.frames[Math.min(at(geometry.depth, shape), theme.frames.length - 1)];
      pen.fillStyle = kind === ShapeKind.Frame ? (frame ?? theme.closed) : theme.stripOn;
      pen.fillRect(r.x, r.y, r.width, Math.max(r.height, 1 / this.scale));
    }
  }
}
