/** What is inside each box, in pixels at 1:1: measured once, then used to lay out, to paint and to hit. */

import {
  cellLetter,
  formatBytes,
  formatSeconds,
  kindMark,
  partialMark,
  plural,
  stepText,
  sumSeconds,
} from "./format";
import type {
  BadgeView,
  CellView,
  Delivery,
  Direction,
  GraphBox,
  GraphGroup,
  ParameterRow,
} from "./model";

const FAMILY = '"Inter Variable", Inter, "DejaVu Sans", sans-serif';
export const FONT = {
  title: `600 12.5px ${FAMILY}`,
  sub: `400 11px ${FAMILY}`,
  letter: `500 9.5px ${FAMILY}`,
  cell: `600 10px ${FAMILY}`,
  row: `400 10.5px ${FAMILY}`,
  pill: `600 10.5px ${FAMILY}`,
  info: `400 10.5px ${FAMILY}`,
} as const;
/** A font at another size, for texts that are drawn at a size on screen. */
export function fontOf(size: number): string {
  return `600 ${size}px ${FAMILY}`;
}

export type Measure = (font: string, text: string) => number;

/** Remember widths: the same few hundred texts come back in every layer. */
export function cachedMeasure(measure: Measure): Measure {
  const known = new Map<string, number>();
  return (font, text) => {
    const key = `${font}|${text}`;
    let width = known.get(key);
    if (width === undefined) {
      width = measure(font, text);
      known.set(key, width);
    }
    return width;
  };
}

export interface Part {
  readonly axis: string;
  readonly text: string;
  readonly x: number;
  readonly width: number;
}

export interface CellArt {
  readonly x: number;
  readonly width: number;
  readonly letter: string;
  readonly parts: readonly Part[];
}

/** A step of a delivery: its kind and axes in hue, then bytes and time. */
export interface PillArt {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly parts: readonly Part[];
  readonly info: string;
  readonly infoX: number;
}

export interface RowArt {
  readonly y: number;
  readonly name: string;
  readonly cells: readonly CellArt[];
  readonly pills: readonly PillArt[];
  readonly tail: string;
  readonly tailX: number;
}

export interface BoxArt {
  readonly width: number;
  readonly height: number;
  readonly title: string;
  readonly subtitle: string;
  readonly cells: readonly CellArt[];
  readonly partial: Part | null;
  readonly rows: readonly RowArt[];
}

export interface BadgeArt {
  readonly width: number;
  readonly height: number;
  readonly pills: readonly PillArt[];
}

export interface GroupArt {
  readonly width: number;
  readonly height: number;
  readonly headerWidth: number;
  readonly headerHeight: number;
  readonly title: string;
  readonly range: string;
  readonly times: string;
  readonly subtitle: string;
  readonly tally: string;
  readonly titleWidth: number;
  readonly rangeWidth: number;
  readonly timesWidth: number;
  readonly strip: boolean;
  /** Height of the sheets behind a template that stands for many layers. */
  readonly sheets: number;
}

export const BOX = { pad: 11, head: 46, row: 20, cell: 16, rowCell: 14, letterY: 13, cellY: 19 };
export const PILL = { height: 19, gap: 2 };
export const GROUP = { height: 64, strip: 14, header: 36, chevron: 22, sheets: 8 };
const TITLE_LIMIT = 190;

export function boxArt(box: GraphBox, direction: Direction, measure: Measure): BoxArt {
  const title = clipped(box.title, TITLE_LIMIT, FONT.title, measure);
  const textWidth = Math.max(measure(FONT.title, title), measure(FONT.sub, box.subtitle));
  const rows = box.parameters.map((row) => measureRow(row, direction, measure));
  const names = Math.max(0, ...rows.map((row) => row.nameWidth));
  const cells = cellRow(box.cells, 0, measure, 24);
  const mark = partialMark(box.reduce, box.partial);
  const markWidth = mark ? measure(FONT.cell, mark) + 10 : 0;
  const cellsWidth = cells.width + (mark ? markWidth + (cells.width ? 5 : 0) : 0);
  const heads = BOX.pad + textWidth + (cellsWidth ? 20 + cellsWidth : 0) + BOX.pad;
  const rowsWidth = rows.map(
    (row) => BOX.pad + names + 8 + row.cells.width + row.marksWidth + BOX.pad,
  );
  // Widths in steps of 8, so that neighbours that differ by a letter are alike.
  const width = Math.ceil(Math.max(box.kind === "op" ? 150 : 90, heads, ...rowsWidth) / 8) * 8;
  const cellsX = width - BOX.pad - cellsWidth;
  return {
    width,
    height: box.kind === "op" ? BOX.head + rows.length * BOX.row + (rows.length ? 3 : 0) : 40,
    title,
    subtitle: box.subtitle,
    cells: shifted(cells.cells, cellsX),
    partial: mark
      ? { axis: box.partial[0] ?? "", text: mark, x: width - BOX.pad - markWidth, width: markWidth }
      : null,
    rows: rows.map((row, index) => placeRow(row, index, names, width)),
  };
}

interface MeasuredRow {
  readonly name: string;
  readonly nameWidth: number;
  readonly cells: { readonly cells: readonly CellArt[]; readonly width: number };
  readonly pills: readonly PillArt[];
  readonly tail: string;
  readonly tailWidth: number;
  readonly marksWidth: number;
}

function measureRow(row: ParameterRow, direction: Direction, measure: Measure): MeasuredRow {
  const steps = row.steps[direction];
  const pills = steps.map((step) => pill(step, "", 0, 0, measure));
  const bytes = Math.max(0, ...steps.map((step) => step.payload_bytes));
  const own = steps.length ? `${formatBytes(bytes)} · ${formatSeconds(sumSeconds(steps))}` : "";
  const tail = (direction === "backward" && row.bucket) || own;
  const tailWidth = tail ? measure(FONT.info, tail) + 5 : 0;
  const pillsWidth = pills.reduce((sum, mark) => sum + mark.width + 3, 0);
  return {
    name: row.name,
    nameWidth: measure(FONT.row, row.name),
    cells: cellRow(row.cells, 0, measure, 18),
    pills,
    tail,
    tailWidth,
    marksWidth: steps.length ? pillsWidth + tailWidth + 12 : 0,
  };
}

function placeRow(row: MeasuredRow, index: number, names: number, width: number): RowArt {
  const y = BOX.head + index * BOX.row;
  let x =
    width - BOX.pad - row.tailWidth - row.pills.reduce((sum, mark) => sum + mark.width + 3, 0);
  const pills = row.pills.map((mark) => {
    const placed = { ...mark, x, y: y - 1 };
    x += mark.width + 3;
    return placed;
  });
  return {
    y,
    name: row.name,
    cells: shifted(row.cells.cells, BOX.pad + names + 8),
    pills,
    tail: row.tail,
    tailX: x + 2,
  };
}

function cellRow(
  cells: readonly CellView[],
  left: number,
  measure: Measure,
  least: number,
): { cells: CellArt[]; width: number } {
  let x = left;
  const made = cells.map((cell) => {
    const letter = cellLetter(cell);
    const parts: Part[] = [];
    let inside = 0;
    for (const axis of cell.axes) {
      const width = measure(FONT.cell, axis) + 8;
      parts.push({ axis, text: axis, x: inside, width });
      inside += width + 1;
    }
    const letters = least > 20 ? Math.min(44, measure(FONT.letter, letter) + 2) : 0;
    const width = Math.ceil(Math.max(least, letters, inside - 1));
    // The last part takes what is left, so that a split cell has no seam at its end.
    const last = parts[parts.length - 1];
    if (last) parts[parts.length - 1] = { ...last, width: width - last.x };
    const art = { x, width, letter, parts };
    x += width + 3;
    return art;
  });
  return { cells: made, width: Math.max(0, x - left - 3) };
}

function shifted(cells: readonly CellArt[], by: number): CellArt[] {
  return cells.map((cell) => ({ ...cell, x: cell.x + by }));
}

function pill(step: BadgeView, info: string, x: number, y: number, measure: Measure): PillArt {
  const parts: Part[] = [];
  let inside = 0;
  const axes = step.axes.length ? step.axes : [""];
  axes.forEach((axis, index) => {
    const text = index === 0 ? `${kindMark(step.kind)} ${axis}`.trim() : axis;
    const width = Math.ceil(measure(FONT.pill, text)) + 12;
    parts.push({ axis, text, x: inside, width });
    inside += width;
  });
  const width = info ? inside + Math.ceil(measure(FONT.info, info)) + 14 : inside;
  return { x, y, width, parts, info, infoX: inside + 6 };
}

export function badgeArt(delivery: Delivery, measure: Measure): BadgeArt {
  const pills = delivery.steps.map((step, index) =>
    pill(step, stepText(step), 0, index * (PILL.height + PILL.gap), measure),
  );
  const width = Math.max(0, ...pills.map((mark) => mark.width));
  return {
    width,
    height: pills.length * (PILL.height + PILL.gap) - PILL.gap,
    pills: pills.map((mark) => ({ ...mark, x: (width - mark.width) / 2 })),
  };
}

/** The last layer of a run. */
export function lastOf(group: GraphGroup): number {
  return group.start + (group.layers - 1) * group.step;
}

export function groupArt(group: GraphGroup, direction: Direction, measure: Measure): GroupArt {
  const run = group.kind === "run";
  const title = clipped(group.title, TITLE_LIMIT, FONT.title, measure);
  const last = lastOf(group);
  const every = group.step > 1 && last > group.start ? ` by ${group.step}` : "";
  const span = last > group.start ? `${group.start}–${last}${every}` : String(group.start);
  const range = run && title !== span ? span : "";
  const times = run && group.layers > 1 ? `×${group.layers}` : "";
  const each = run && group.layers > 1 ? " a layer" : "";
  const operators = `${plural(group.operators, "op")}${each}`;
  const subtitle = group.subtitle ? `${group.subtitle} · ${operators}` : operators;
  const { collectives, bytes } = group.tally[direction];
  const tally = collectives
    ? `${plural(Math.round(collectives), "collective")} · ${formatBytes(bytes)}`
    : "no collectives";
  const titleWidth = measure(FONT.title, title);
  const rangeWidth = range ? measure(FONT.sub, range) + 8 : 0;
  const timesWidth = times ? measure(FONT.pill, times) + 12 : 0;
  const head = GROUP.chevron + titleWidth + rangeWidth + (times ? timesWidth + 8 : 0);
  const text = Math.max(
    head,
    GROUP.chevron + measure(FONT.sub, subtitle),
    GROUP.chevron + measure(FONT.sub, tally),
  );
  const width = Math.ceil((Math.max(run ? 230 : 160, text) + BOX.pad + 6) / 8) * 8;
  const sheets = times ? GROUP.sheets : 0;
  return {
    width,
    height: GROUP.height + (run ? GROUP.strip : 0) + sheets,
    headerWidth: Math.ceil(
      head + (group.subtitle ? measure(FONT.sub, group.subtitle) + 10 : 0) + 8,
    ),
    headerHeight: GROUP.header + (run ? GROUP.strip : 0),
    title,
    range,
    times,
    subtitle,
    tally,
    titleWidth,
    rangeWidth,
    timesWidth,
    strip: run,
    sheets,
  };
}

function clipped(text: string, limit: number, font: string, measure: Measure): string {
  if (measure(font, text) <= limit) return text;
  let kept = text.length;
  while (kept > 1 && measure(font, `${text.slice(0, kept)}…`) > limit) kept -= 1;
  return `${text.slice(0, kept)}…`;
}
