/** The whole graph as a picture, whatever part of it is on screen. */

import type { Measure } from "./art";
import { type Look, paintScene } from "./paint";
import type { Scene } from "./scene";
import { SvgPen } from "./svg";

const MARGIN = 24;
/** Browsers refuse canvases beyond about this side; larger graphs are scaled down. */
const LARGEST = 16_000;

export function exportPng(scene: Scene, look: Look, scale: number): string {
  const [width, height] = size(scene);
  const fit = Math.min(scale, LARGEST / width, LARGEST / height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * fit);
  canvas.height = Math.ceil(height * fit);
  const pen = canvas.getContext("2d");
  if (!pen) return "";
  pen.fillStyle = look.theme.canvas;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(fit, 0, 0, fit, MARGIN * fit, MARGIN * fit);
  paintScene(pen, scene, { zoom: 1, x: MARGIN, y: MARGIN }, width, height, look);
  return canvas.toDataURL("image/png");
}

export function exportSvg(scene: Scene, look: Look, measure: Measure): string {
  const [width, height] = size(scene);
  const pen = new SvgPen(MARGIN, measure);
  paintScene(pen, scene, { zoom: 1, x: MARGIN, y: MARGIN }, width, height, look);
  return pen.document(width, height, look.theme.canvas);
}

function size({ geometry }: Scene): [number, number] {
  return [geometry.width + 2 * MARGIN, geometry.height + 2 * MARGIN];
}
