/** Paint groups: closed boxes, open frames and the strips of layers. */

import { BOX, FONT, fontOf, GROUP, type GroupArt, lastOf } from "./art";
import type { GraphGroup } from "./model";
import type { Detail, Look } from "./paint";
import { paintOutline } from "./paintBox";
import { type Pen, roundBox } from "./pen";
import type { Rect } from "./scene";
import type { Theme } from "./theme";

const RADIUS = 8;

function frameFill(theme: Theme, depth: number): string {
  return theme.frames[Math.min(depth, theme.frames.length - 1)] ?? theme.closed;
}

export function paintFrame(
  pen: Pen,
  rect: Rect,
  depth: number,
  zoom: number,
  look: Look,
  shape: number,
): void {
  pen.fillStyle = frameFill(look.theme, depth);
  pen.strokeStyle = look.theme.frameLine;
  pen.lineWidth = Math.max(1, 0.6 / zoom);
  roundBox(pen, rect.x, rect.y, rect.width, rect.height, RADIUS);
  pen.fill();
  pen.stroke();
  paintOutline(pen, rect, shape, zoom, look);
}

/** Painted over the lines, on a ground of the frame's own colour: a line that crosses it must not cut the name. */
export function paintFrameHeader(
  pen: Pen,
  rect: Rect,
  group: GraphGroup,
  art: GroupArt,
  depth: number,
  zoom: number,
  look: Look,
): void {
  pen.fillStyle = frameFill(look.theme, depth);
  roundBox(pen, rect.x + 4, rect.y + 9, art.headerWidth, 20, 4);
  pen.fill();
  if (zoom < 0.4) {
    paintPlainTitle(pen, rect.x + 10, rect.y + 24, art.title, zoom, look);
    return;
  }
  const end = paintTitle(pen, rect.x, rect.y + 22, art, true, look);
  pen.font = FONT.sub;
  pen.fillStyle = look.theme.dim;
  pen.fillText(group.subtitle, end + 10, rect.y + 22);
  if (art.strip) {
    paintStrip(
      pen,
      rect.x + 12,
      rect.y + GROUP.header - 3,
      Math.min(rect.width - 24, 420),
      group,
      frameFill(look.theme, depth),
      look,
    );
  }
}

export function paintClosed(
  pen: Pen,
  rect: Rect,
  group: GraphGroup,
  art: GroupArt,
  zoom: number,
  detail: Detail,
  look: Look,
  shape: number,
): void {
  const { theme } = look;
  const { x, width } = rect;
  const y = rect.y + art.sheets;
  const height = rect.height - art.sheets;
  if (detail === "bars") {
    pen.fillStyle = theme.closed;
    pen.fillRect(x, y, width, height);
    pen.fillStyle = theme.stripOn;
    pen.fillRect(x + 8, y + 8, Math.min(width - 16, 90), 12);
    paintOutline(pen, rect, shape, zoom, look);
    return;
  }
  pen.strokeStyle = theme.frameLine;
  pen.lineWidth = 1;
  pen.fillStyle = theme.closed;
  for (let back = art.sheets; back > 0; back -= 4) {
    roundBox(pen, x + back, y - back, width - 2 * back, height, RADIUS);
    pen.fill();
    pen.stroke();
  }
  roundBox(pen, x, y, width, height, RADIUS);
  pen.fill();
  pen.stroke();
  if (detail === "boxes") {
    paintPlainTitle(pen, x + 12, y + height / 2 + 6, `${art.title} ${art.times}`, zoom, look);
  } else {
    paintTitle(pen, x, y + 20, art, false, look);
    pen.font = FONT.sub;
    pen.fillStyle = theme.dim;
    pen.fillText(art.subtitle, x + GROUP.chevron + 2, y + 37);
    if (look.pending) pen.globalAlpha = 0.45;
    pen.fillText(art.tally, x + GROUP.chevron + 2, y + 53);
    pen.globalAlpha = 1;
  }
  if (art.strip) paintStrip(pen, x + 12, y + height - 16, width - 24, group, theme.closed, look);
  paintOutline(pen, { x, y, width, height }, shape, zoom, look);
}

function paintPlainTitle(
  pen: Pen,
  x: number,
  y: number,
  title: string,
  zoom: number,
  look: Look,
): void {
  const size = Math.round(Math.min(11 / zoom, 30));
  pen.textAlign = "left";
  pen.font = fontOf(size);
  pen.fillStyle = look.theme.text;
  pen.fillText(title, x, y);
}

/** Return where the title ends. */
function paintTitle(
  pen: Pen,
  x: number,
  baseline: number,
  art: GroupArt,
  open: boolean,
  look: Look,
): number {
  const { theme } = look;
  const [cx, cy] = [x + BOX.pad + 2, baseline - 4];
  pen.strokeStyle = theme.dim;
  pen.lineWidth = 1.7;
  pen.beginPath();
  if (open) {
    pen.moveTo(cx - 4, cy - 2);
    pen.lineTo(cx, cy + 2.5);
    pen.lineTo(cx + 4, cy - 2);
  } else {
    pen.moveTo(cx - 2, cy - 4);
    pen.lineTo(cx + 2.5, cy);
    pen.lineTo(cx - 2, cy + 4);
  }
  pen.stroke();
  pen.textAlign = "left";
  pen.font = FONT.title;
  pen.fillStyle = theme.text;
  let at = x + GROUP.chevron + 2;
  pen.fillText(art.title, at, baseline);
  at += art.titleWidth;
  if (art.range) {
    pen.font = FONT.sub;
    pen.fillStyle = theme.dim;
    pen.fillText(art.range, at + 6, baseline);
    at += art.rangeWidth;
  }
  if (art.times) {
    pen.fillStyle = theme.chip;
    roundBox(pen, at + 6, baseline - 13, art.timesWidth, 17, 8.5);
    pen.fill();
    pen.textAlign = "center";
    pen.font = FONT.pill;
    pen.fillStyle = theme.text;
    pen.fillText(art.times, at + 6 + art.timesWidth / 2, baseline - 0.8);
    pen.textAlign = "left";
    at += art.timesWidth + 6;
  }
  return at;
}

/** All layers of the list, those of this run filled in. */
function paintStrip(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  group: GraphGroup,
  ground: string,
  look: Look,
): void {
  const { theme } = look;
  const total = Math.max(1, group.total);
  const step = width / total;
  const height = 7;
  pen.fillStyle = theme.strip;
  pen.fillRect(x, y, width, height);
  pen.fillStyle = theme.stripOn;
  const shown = lastOf(group) - group.start + 1;
  pen.fillRect(x + group.start * step, y, Math.max(1.5, shown * step), height);
  // Gaps between the cells; where these would be too narrow, a cell is of several layers.
  const each = Math.ceil(5 / step);
  pen.fillStyle = ground;
  for (let layer = each; layer < total; layer += each) {
    pen.fillRect(x + layer * step - 0.5, y, 1, height);
  }
}
