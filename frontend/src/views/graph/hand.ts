/** What pointers and keys do to the graph: hover, select, open, follow edges. */

import { ZOOM } from "./camera";
import { tipLines } from "./describe";
import { type Actions, type Frame, listen } from "./input";
import { at, ShapeKind } from "./layout/types";
import type { BadgeView } from "./model";
import { step, type Way } from "./navigate";
import type { Hit, Scene } from "./scene";
import { Tip } from "./tip";
import type { Viewport } from "./viewport";

/** What the hand acts on. */
export interface Held {
  readonly canvas: HTMLCanvasElement;
  readonly viewport: Viewport;
  scene(): Scene | null;
  selectedShape(): number;
  choose(id: string | null): void;
  /** Choose a tensor with who makes it, or with its first reader. */
  chooseEdge(id: string): void;
  mark(ids: readonly string[]): void;
  openGroup(id: string, state: boolean): void;
  openBadge(badge: BadgeView): void;
  changed(): void;
}

const WAYS: Record<string, Way> = {
  ArrowUp: "producer",
  ArrowDown: "reader",
  ArrowLeft: "left",
  ArrowRight: "right",
};
/** How far beside a line a pointer still means it, in pixels on screen. */
const SLACK = 5;

export class Hand {
  readonly stop: () => void;
  private hovered: Hit | null = null;
  /** The frame that is being drawn, on the canvas. */
  frame: Frame | null = null;
  private readonly tip: Tip;

  constructor(
    host: HTMLElement,
    private readonly held: Held,
  ) {
    this.tip = new Tip(host);
    const { viewport } = held;
    const actions: Actions = {
      pan: (dx, dy) => viewport.pan(dx, dy),
      frame: (frame, done) => {
        this.frame = done ? null : frame;
        if (done && frame) held.mark(this.within(frame));
        held.changed();
      },
      zoom: (factor, x, y) => viewport.zoomAround(factor, x, y),
      hover: (point) => this.hover(point),
      click: (x, y) => this.click(this.hitAt(x, y)),
      doubleClick: (x, y) => {
        const hit = this.hitAt(x, y);
        if (hit?.kind === "group" && !hit.chevron) this.toggle(hit.shape);
        const badge = hit && this.badgeOf(hit);
        if (badge) held.openBadge(badge);
      },
      key: (event) => this.key(event.key),
    };
    this.stop = listen(held.canvas, actions);
  }

  /** Forget what points into the last scene. */
  forget(): void {
    this.hovered = null;
  }

  hoveredShape(): number {
    const { hovered } = this;
    return hovered?.kind === "box" || hovered?.kind === "group" ? hovered.shape : -1;
  }

  /** Return the tensor under the pointer; -1 for none. */
  hoveredTensor(): number {
    return this.hovered ? this.tensorOf(this.hovered) : -1;
  }

  /** Return the tensor that a hit stands for: that of a badge or line, or what a box makes. */
  private tensorOf(hit: Hit): number {
    const scene = this.held.scene();
    if (!scene || hit.kind === "group") return -1;
    if (hit.kind === "link") return hit.tensor;
    const ref = at(scene.geometry.ref, hit.shape);
    const { model } = scene.studio;
    if (hit.kind === "badge") return model.deliveries[ref]?.tensor ?? -1;
    return model.tensors.findIndex((tensor) => tensor.producer === ref);
  }

  /** Return the collective that a hit stands for; the first of a parameter's row. */
  private badgeOf(hit: Hit): BadgeView | null {
    const scene = this.held.scene();
    if (!scene || (hit.kind !== "badge" && hit.kind !== "box")) return null;
    const { model, direction } = scene.studio;
    const ref = at(scene.geometry.ref, hit.shape);
    if (hit.kind === "badge") return model.deliveries[ref]?.steps[hit.step] ?? null;
    return model.boxes[ref]?.parameters[hit.row]?.steps[direction][0] ?? null;
  }

  /** Return the operators that a frame touches. */
  private within({ x1, y1, x2, y2 }: Frame): string[] {
    const scene = this.held.scene();
    if (!scene) return [];
    const from = this.held.viewport.toScene(Math.min(x1, x2), Math.min(y1, y2));
    const to = this.held.viewport.toScene(Math.max(x1, x2), Math.max(y1, y2));
    return scene
      .shapesWithin(from.y, to.y)
      .filter((shape) => {
        if (scene.geometry.kind[shape] !== ShapeKind.Box) return false;
        if (scene.studio.model.boxes[at(scene.geometry.ref, shape)]?.kind !== "op") return false;
        const { x, y, width, height } = scene.rect(shape);
        return x < to.x && x + width > from.x && y < to.y && y + height > from.y;
      })
      .map((shape) => scene.idOf(shape));
  }

  private hitAt(x: number, y: number): Hit | null {
    const { viewport } = this.held;
    const point = viewport.toScene(x, y);
    return this.held.scene()?.hit(point.x, point.y, SLACK / viewport.camera.zoom) ?? null;
  }

  private hover(point: { x: number; y: number } | null): void {
    const hit = point ? this.hitAt(point.x, point.y) : null;
    const scene = this.held.scene();
    this.hovered = hit;
    this.held.canvas.style.cursor = hit ? "pointer" : "";
    this.tip.show(hit && scene ? tipLines(scene, hit) : [], point, this.held.viewport);
    this.held.changed();
  }

  private toggle(shape: number): void {
    const scene = this.held.scene();
    if (!scene) return;
    this.held.openGroup(scene.idOf(shape), scene.geometry.kind[shape] === ShapeKind.Closed);
  }

  private click(hit: Hit | null): void {
    const scene = this.held.scene();
    if (!scene || !hit) {
      this.held.choose(null);
    } else if (hit.kind === "group" && hit.chevron) {
      this.toggle(hit.shape);
    } else if (hit.kind === "group" || hit.kind === "box") {
      this.held.choose(scene.idOf(hit.shape));
    } else {
      const tensor = scene.studio.model.tensors[this.tensorOf(hit)];
      if (tensor) this.held.chooseEdge(tensor.id);
    }
  }

  /** Return whether the key meant something. */
  private key(key: string): boolean {
    const { viewport } = this.held;
    const way = WAYS[key];
    if (way) this.walk(way);
    else if (key === "Enter" || key === " ") this.enter();
    else if (key === "f" || key === "F") viewport.fit();
    else if (key === "0") viewport.zoomTo(1);
    else if (key === "+" || key === "=") viewport.zoomBy(ZOOM.step);
    else if (key === "-" || key === "_") viewport.zoomBy(1 / ZOOM.step);
    else if (key === "Escape") this.click(null);
    else return false;
    return true;
  }

  private walk(way: Way): void {
    const scene = this.held.scene();
    if (!scene) return;
    const to = step(scene, this.held.selectedShape(), way);
    if (to < 0) return;
    this.held.choose(scene.idOf(to));
    this.held.viewport.reveal(scene.rect(to));
  }

  private enter(): void {
    const shape = this.held.selectedShape();
    const kind = shape < 0 ? undefined : this.held.scene()?.geometry.kind[shape];
    if (kind === ShapeKind.Closed || kind === ShapeKind.Frame) this.toggle(shape);
  }
}
