/** Paint a window of the scene. Works on a canvas and on the SVG pen alike. */

import type { Camera } from "./camera";
import type { Frame } from "./input";
import { at, LinkFlag, ShapeKind } from "./layout/types";
import { paintBadge, paintBox } from "./paintBox";
import { paintClosed, paintFrame, paintFrameHeader } from "./paintGroup";
import type { Pen } from "./pen";
import type { Scene } from "./scene";
import { axisColour, type Theme } from "./theme";

export interface Look {
  readonly theme: Theme;
  readonly colours: Readonly<Record<string, string>>;
  readonly selected: number;
  readonly marked: ReadonlySet<number>;
  /** The tensor whose whole fan-out stands out; -1 for none. */
  readonly tensor: number;
  readonly hovered: number;
  /** Numbers are about to change, and dimmed until they do. */
  readonly pending: boolean;
}

/** Level of detail: bars below 0.25, boxes below 0.55, else everything. */
export type Detail = "bars" | "boxes" | "full";

export function detailAt(zoom: number): Detail {
  return zoom < 0.25 ? "bars" : zoom < 0.55 ? "boxes" : "full";
}

/** The frame that is being drawn, in pixels of the canvas. */
export function paintMarquee(
  pen: CanvasRenderingContext2D,
  { x1, y1, x2, y2 }: Frame,
  ratio: number,
  theme: Theme,
): void {
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = theme.halo;
  pen.strokeStyle = theme.select;
  pen.lineWidth = 1;
  pen.fillRect(x1, y1, x2 - x1, y2 - y1);
  pen.strokeRect(x1, y1, x2 - x1, y2 - y1);
}

/** What is smaller on screen than this many pixels is left out. */
const SMALLEST = 1.5;

export function paintScene(
  pen: Pen,
  scene: Scene,
  camera: Camera,
  width: number,
  height: number,
  look: Look,
): void {
  const { zoom } = camera;
  const left = -camera.x / zoom;
  const top = -camera.y / zoom;
  const right = left + width / zoom;
  const bottom = top + height / zoom;
  const { geometry, studio } = scene;
  const detail = detailAt(zoom);
  const shapes = scene.shapesWithin(top, bottom).filter((shape) => {
    const r = 4 * shape;
    const [x, y, w, h] = [
      at(geometry.rect, r),
      at(geometry.rect, r + 1),
      at(geometry.rect, r + 2),
      at(geometry.rect, r + 3),
    ];
    return x < right && x + w > left && y < bottom && y + h > top && h * zoom > SMALLEST;
  });

  for (const shape of shapes) {
    if (geometry.kind[shape] !== ShapeKind.Frame) continue;
    paintFrame(pen, scene.rect(shape), at(geometry.depth, shape), zoom, look, shape);
  }
  // Lines of a graph that is a few pixels wide would be one grey smear.
  if (zoom > 0.06) paintLinks(pen, scene, { left, top, right, bottom }, zoom, look);
  for (const shape of shapes) {
    const rect = scene.rect(shape);
    const ref = at(geometry.ref, shape);
    const kind = geometry.kind[shape];
    if (kind === ShapeKind.Frame) {
      const [group, art] = [studio.model.groups[ref], studio.groups[ref]];
      if (group && art && detail !== "bars")
        paintFrameHeader(pen, rect, group, art, at(geometry.depth, shape), zoom, look);
    } else if (kind === ShapeKind.Closed) {
      const [group, art] = [studio.model.groups[ref], studio.groups[ref]];
      if (group && art) paintClosed(pen, rect, group, art, zoom, detail, look, shape);
    } else if (kind === ShapeKind.Badge) {
      const art = studio.badges[ref];
      const own = studio.model.deliveries[ref]?.tensor === look.tensor;
      if (art) paintBadge(pen, rect, art, detail, look, own);
    } else {
      const [box, art] = [studio.model.boxes[ref], studio.boxes[ref]];
      if (box && art) paintBox(pen, rect, box, art, zoom, detail, look, shape);
    }
  }
}

interface Window {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Lines are batched by colour: one stroke for all lines of a hue. */
function paintLinks(pen: Pen, scene: Scene, window: Window, zoom: number, look: Look): void {
  const { geometry, studio } = scene;
  const batches = new Map<string, number[]>();
  const bright: number[] = [];
  for (const link of scene.linksWithin(window.top, window.bottom)) {
    const first = at(geometry.linkStart, link);
    const last = at(geometry.linkStart, link + 1) - 1;
    const [x1, x2] = [at(geometry.points, 2 * first), at(geometry.points, 2 * last)];
    if (Math.max(x1, x2) < window.left || Math.min(x1, x2) > window.right) continue;
    if (at(geometry.linkTensor, link) === look.tensor) bright.push(link);
    else {
      const axis = studio.model.deliveries[at(geometry.linkDelivery, link)]?.steps[0]?.axes[0];
      const colour = axis ? axisColour(axis, look.colours, look.theme) : look.theme.link;
      const batch = batches.get(colour);
      if (batch) batch.push(link);
      else batches.set(colour, [link]);
    }
  }
  const backward = studio.direction === "backward";
  const thin = Math.max(1.3, 0.7 / zoom);
  for (const [colour, links] of batches)
    strokeLinks(pen, scene, links, colour, thin, zoom, backward);
  if (bright.length > 0) {
    strokeLinks(
      pen,
      scene,
      bright,
      look.theme.linkHover,
      Math.max(2.2, 1.6 / zoom),
      zoom,
      backward,
    );
  }
}

function strokeLinks(
  pen: Pen,
  scene: Scene,
  links: readonly number[],
  colour: string,
  width: number,
  zoom: number,
  backward: boolean,
): void {
  const { linkStart, linkFlags, points } = scene.geometry;
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  for (const link of links) {
    const first = at(linkStart, link);
    const end = at(linkStart, link + 1);
    let [x, y] = [at(points, 2 * first), at(points, 2 * first + 1)];
    pen.moveTo(x, y);
    for (let p = first + 1; p < end; p += 1) {
      const [nx, ny] = [at(points, 2 * p), at(points, 2 * p + 1)];
      if (nx === x || ny === y) pen.lineTo(nx, ny);
      else pen.bezierCurveTo(x, (y + ny) / 2, nx, (y + ny) / 2, nx, ny);
      [x, y] = [nx, ny];
    }
  }
  pen.stroke();
  if (zoom < 0.25) return;
  pen.fillStyle = colour;
  pen.beginPath();
  for (const link of links) {
    const flags = at(linkFlags, link);
    const first = at(linkStart, link);
    const last = at(linkStart, link + 1) - 1;
    if (!backward && flags & LinkFlag.Reader) arrow(pen, points, last, last - 1);
    if (backward && flags & LinkFlag.Producer) arrow(pen, points, first, first + 1);
  }
  pen.fill();
}

/** Add an arrowhead at one point of a line, coming from the next; ends are upright or level. */
function arrow(pen: Pen, points: Float32Array, tip: number, from: number): void {
  const [x, y] = [at(points, 2 * tip), at(points, 2 * tip + 1)];
  const level = at(points, 2 * from + 1) === y;
  const [long, half] = [7, 3.6];
  pen.moveTo(x, y);
  if (level) {
    const back = at(points, 2 * from) < x ? -long : long;
    pen.lineTo(x + back, y - half);
    pen.lineTo(x + back, y + half);
  } else {
    const back = at(points, 2 * from + 1) < y ? -long : long;
    pen.lineTo(x - half, y + back);
    pen.lineTo(x + half, y + back);
  }
  pen.closePath();
}
