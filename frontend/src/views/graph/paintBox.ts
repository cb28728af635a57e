/** Paint operators, ports and badges. */

import {
  type BadgeArt,
  BOX,
  type BoxArt,
  type CellArt,
  FONT,
  fontOf,
  PILL,
  type PillArt,
  type RowArt,
} from "./art";
import type { GraphBox } from "./model";
import type { Detail, Look } from "./paint";
import { type Pen, roundBox } from "./pen";
import type { Rect } from "./scene";
import { axisColour, textOn } from "./theme";

const RADIUS = 5;

/** Outline what is selected, or under the pointer. */
export function paintOutline(pen: Pen, rect: Rect, shape: number, zoom: number, look: Look): void {
  const selected = shape === look.selected || look.marked.has(shape);
  if (!selected && shape !== look.hovered) return;
  const line = Math.max(selected ? 2 : 1.2, (selected ? 1.6 : 1) / zoom);
  if (selected) {
    pen.strokeStyle = look.theme.halo;
    pen.lineWidth = line * 3.4;
    roundBox(pen, rect.x, rect.y, rect.width, rect.height, RADIUS);
    pen.stroke();
  }
  pen.strokeStyle = selected ? look.theme.select : look.theme.dim;
  pen.lineWidth = line;
  roundBox(pen, rect.x, rect.y, rect.width, rect.height, RADIUS);
  pen.stroke();
}

export function paintBox(
  pen: Pen,
  rect: Rect,
  box: GraphBox,
  art: BoxArt,
  zoom: number,
  detail: Detail,
  look: Look,
  shape: number,
): void {
  const { theme } = look;
  const { x, y, width, height } = rect;
  const port = box.kind !== "op";
  if (detail === "bars") {
    pen.fillStyle = port ? theme.stripe : theme.boxLine;
    pen.fillRect(x, y, width, height);
    paintCells(pen, art.cells, x, y + 8, height - 16, "bars", look);
    paintOutline(pen, rect, shape, zoom, look);
    return;
  }
  pen.fillStyle = port ? theme.port : theme.box;
  pen.strokeStyle = theme.boxLine;
  pen.lineWidth = 1;
  if (port) pen.setLineDash([4, 3]);
  roundBox(pen, x, y, width, height, port ? height / 2 : RADIUS);
  pen.fill();
  pen.stroke();
  if (port) pen.setLineDash([]);
  if (!port) {
    pen.fillStyle = box.parameters.length > 0 ? theme.stripeHeavy : theme.stripe;
    roundBox(pen, x, y, 4, height, [RADIUS, 0, 0, RADIUS]);
    pen.fill();
  }
  if (detail === "boxes") {
    paintTitleOnly(pen, rect, art.title, zoom, look);
  } else {
    paintText(pen, rect, art, port, look);
  }
  // From afar the title takes the width of the box, and the cells are a strip below it.
  const far = detail === "boxes";
  const cellTop = y + (far ? 31 : port ? 18 : BOX.cellY);
  paintCells(pen, art.cells, x, cellTop, far ? (port ? 6 : 11) : BOX.cell, detail, look);
  if (art.partial && !far) paintPartial(pen, art.partial, x, cellTop, detail, look);
  for (const row of art.rows) paintRow(pen, x, y, row, detail, look);
  paintOutline(pen, rect, shape, zoom, look);
}

function paintText(pen: Pen, { x, y }: Rect, art: BoxArt, port: boolean, look: Look): void {
  pen.textAlign = "left";
  pen.font = FONT.title;
  pen.fillStyle = look.theme.text;
  const left = x + BOX.pad + (port ? 4 : 1);
  pen.fillText(art.title, left, y + (port ? 17 : 19));
  pen.font = FONT.sub;
  pen.fillStyle = look.theme.dim;
  pen.fillText(art.subtitle, left, y + (port ? 31 : 35));
}

/** Write a title at a size that reads on screen, as far as the box has room. */
function paintTitleOnly(pen: Pen, rect: Rect, title: string, zoom: number, look: Look): void {
  const size = Math.round(Math.min(11 / zoom, 25));
  const room = Math.floor((rect.width - 18) / (size * 0.6));
  pen.textAlign = "left";
  pen.font = fontOf(size);
  pen.fillStyle = look.theme.text;
  const text = title.length > room ? `${title.slice(0, Math.max(1, room - 1))}…` : title;
  pen.fillText(text, rect.x + 10, rect.y + 15 + size * 0.36);
}

function paintCells(
  pen: Pen,
  cells: readonly CellArt[],
  left: number,
  top: number,
  height: number,
  detail: Detail,
  look: Look,
): void {
  const { theme } = look;
  for (const cell of cells) {
    const x = left + cell.x;
    if (detail === "full" && height === BOX.cell) {
      pen.textAlign = "center";
      pen.font = FONT.letter;
      pen.fillStyle = theme.dim;
      pen.fillText(cell.letter, x + cell.width / 2, top - BOX.cellY + BOX.letterY + 2);
    }
    if (cell.parts.length === 0 || detail === "full") {
      pen.fillStyle = theme.cell;
      roundBox(pen, x, top, cell.width, height, 3);
      pen.fill();
    }
    cell.parts.forEach((part, index) => {
      const hue = axisColour(part.axis, look.colours, theme);
      const alone = cell.parts.length === 1;
      const last = index === cell.parts.length - 1;
      pen.fillStyle = hue;
      roundBox(
        pen,
        x + part.x,
        top,
        part.width,
        height,
        alone ? 3 : index === 0 ? [3, 0, 0, 3] : last ? [0, 3, 3, 0] : 0,
      );
      pen.fill();
      if (detail !== "full") return;
      pen.textAlign = "center";
      pen.font = FONT.cell;
      pen.fillStyle = textOn(hue);
      pen.fillText(part.text, x + part.x + part.width / 2, top + height / 2 + 3.5);
    });
  }
}

/** A dashed outline: the value is not yet whole on any rank. */
function paintPartial(
  pen: Pen,
  part: { axis: string; text: string; x: number; width: number },
  left: number,
  top: number,
  detail: Detail,
  look: Look,
): void {
  pen.strokeStyle = axisColour(part.axis, look.colours, look.theme);
  pen.lineWidth = 1.4;
  pen.setLineDash([3, 2]);
  roundBox(pen, left + part.x + 0.5, top + 0.5, part.width - 1, BOX.cell - 1, 3);
  pen.stroke();
  pen.setLineDash([]);
  if (detail !== "full") return;
  pen.textAlign = "center";
  pen.font = FONT.cell;
  pen.fillStyle = look.theme.text;
  pen.fillText(part.text, left + part.x + part.width / 2, top + BOX.cell / 2 + 3.5);
}

function paintRow(pen: Pen, x: number, y: number, row: RowArt, detail: Detail, look: Look): void {
  const top = y + row.y;
  paintCells(pen, row.cells, x, top + 1, BOX.rowCell, detail, look);
  for (const mark of row.pills) paintPill(pen, mark, x, y, 17, detail, look);
  if (detail !== "full") return;
  pen.textAlign = "left";
  pen.font = FONT.row;
  pen.fillStyle = look.theme.dim;
  pen.fillText(row.name, x + BOX.pad + 1, top + 11.5);
  if (look.pending) pen.globalAlpha = 0.45;
  pen.fillText(row.tail, x + row.tailX, top + 11.5);
  pen.globalAlpha = 1;
}

export function paintBadge(
  pen: Pen,
  rect: Rect,
  art: BadgeArt,
  detail: Detail,
  look: Look,
  bright: boolean,
): void {
  for (const mark of art.pills) {
    paintPill(pen, mark, rect.x, rect.y, PILL.height, detail, look);
    if (bright) {
      pen.strokeStyle = look.theme.select;
      pen.lineWidth = 2;
      roundBox(pen, rect.x + mark.x, rect.y + mark.y, mark.width, PILL.height, PILL.height / 2);
      pen.stroke();
    }
  }
}

/** Kind and axes on their hues, then bytes and time on plain ground. */
function paintPill(
  pen: Pen,
  mark: PillArt,
  left: number,
  top: number,
  height: number,
  detail: Detail,
  look: Look,
): void {
  const { theme } = look;
  const [x, y] = [left + mark.x, top + mark.y];
  const first = axisColour(mark.parts[0]?.axis ?? "", look.colours, theme);
  if (detail === "bars") {
    pen.fillStyle = first;
    pen.fillRect(x, y, mark.width, height);
    return;
  }
  const round = height / 2;
  if (mark.info) {
    pen.fillStyle = theme.pill;
    pen.strokeStyle = first;
    pen.lineWidth = 1.2;
    roundBox(pen, x, y, mark.width, height, round);
    pen.fill();
    pen.stroke();
  }
  mark.parts.forEach((part, index) => {
    const hue = axisColour(part.axis, look.colours, theme);
    const last = index === mark.parts.length - 1;
    const [l, r] = [index === 0 ? round : 0, last && !mark.info ? round : 0];
    pen.fillStyle = hue;
    roundBox(pen, x + part.x, y, part.width, height, [l, r, r, l]);
    pen.fill();
    if (detail !== "full") return;
    pen.textAlign = "center";
    pen.font = FONT.pill;
    pen.fillStyle = textOn(hue);
    pen.fillText(
      part.text,
      x + part.x + part.width / 2 + (index === 0 && !last ? 1 : 0),
      y + height / 2 + 3.7,
    );
  });
  if (detail !== "full" || !mark.info) return;
  pen.textAlign = "left";
  pen.font = FONT.info;
  pen.fillStyle = theme.text;
  if (look.pending) pen.globalAlpha = 0.45;
  pen.fillText(mark.info, x + mark.infoX, y + height / 2 + 3.7);
  pen.globalAlpha = 1;
}
