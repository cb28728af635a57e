/** Short texts for numbers and names on the canvas. */

import type { BadgeView, CellView } from "./model";

const KINDS: Record<string, readonly [string, string]> = {
  all_gather: ["AG", "All-gather"],
  reduce_scatter: ["RS", "Reduce-scatter"],
  all_reduce: ["AR", "All-reduce"],
  all_to_all: ["A2A", "All-to-all"],
  exchange: ["X", "Exchange"],
  sum_exchange: ["SX", "Sum-exchange"],
  send_recv: ["SR", "Send and receive"],
  permute: ["P", "Permute"],
  slice: ["SL", "Slice"],
};

/** Return the mark of a collective's kind, e.g. `AG`. */
export function kindMark(kind: string): string {
  return KINDS[kind]?.[0] ?? kind.replace(/_/g, " ");
}

export function kindName(kind: string): string {
  return KINDS[kind]?.[1] ?? kind.replace(/_/g, " ");
}

/** Return three significant digits without an exponent or trailing zeros. */
function digits(value: number): string {
  const decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(decimals)));
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${digits(value)} ${units[unit]}`;
}

export function formatSeconds(seconds: number): string {
  if (seconds >= 0.9995) return `${digits(seconds)} s`;
  if (seconds >= 0.9995e-3) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds * 1e6)} µs`;
}

export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** Return what stands above a cell: the symbol of its size, else its factors. */
export function cellLetter(cell: CellView): string {
  if (/^[A-Z]$/.test(cell.size)) return cell.size;
  const size = cell.total >= 10_000 ? `${Math.round(cell.total / 1000)}k` : cell.size;
  return cell.factors.join("") || size;
}

/** Return a partial mark, e.g. `Σtp` or `max tp`. */
export function partialMark(reduce: string, axes: readonly string[]): string {
  if (axes.length === 0) return "";
  const sum = reduce === "" || reduce === "sum";
  return sum ? `Σ${axes.join("·")}` : `${reduce} ${axes.join("·")}`;
}

export function stepText(step: BadgeView): string {
  return `${formatBytes(step.payload_bytes)} · ${formatSeconds(step.seconds)}`;
}

export function sumSeconds(steps: readonly BadgeView[]): number {
  return steps.reduce((sum, step) => sum + step.seconds, 0);
}
