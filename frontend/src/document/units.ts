// Numbers as people read them; the same units as on the command line.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNTS = ["", "K", "M", "B", "T", "P", "E"];

/** Rounds away what only floating point put there, so that −3e-18 s reads as 0. */
function settled(value: number): number {
  return Math.abs(value) < 1e-12 ? 0 : value;
}

export function formatBytes(value: number): string {
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 1024 && unit < BYTES.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? left.toFixed(0) : left.toFixed(1)} ${BYTES[unit]}`;
}

/** Memory of devices, in the decimal units that makers give it in; tensors are in binary ones. */
export function formatMemory(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} GB`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} MB`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)} kB`;
  return `${value.toFixed(0)} B`;
}

export function formatSeconds(value: number): string {
  const seconds = settled(value);
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size >= 1) return `${seconds.toFixed(2)} s`;
  if (size >= 1e-3) return `${(seconds * 1e3).toFixed(2)} ms`;
  return `${(seconds * 1e6).toFixed(1)} µs`;
}

export function formatCount(value: number): string {
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 1000 && unit < COUNTS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${Number(left.toPrecision(3))} ${COUNTS[unit]}`.trim();
}

export function formatInteger(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function formatPercent(fraction: number): string {
  return `${(fraction * 100).toFixed(1)}%`;
}

/** A relative change as `+2.0%`; empty if there is none to speak of. */
export function formatChange(before: number, after: number): string {
  if (before === 0 || before === after) return "";
  const change = after / before - 1;
  if (Math.abs(change) < 5e-5) return "";
  const digits = Math.abs(change) < 0.001 ? 2 : 1;
  return `${change > 0 ? "+" : "−"}${Math.abs(change * 100).toFixed(digits)}%`;
}

/** A value of a cost item, in the item's own unit. */
export function formatValue(value: number, unit: string): string {
  switch (unit) {
    case "s":
      return formatSeconds(value);
    case "B":
      return formatBytes(value);
    case "B/s":
      return `${formatBytes(value)}/s`;
    case "FLOP":
    case "FLOP/s":
      return `${formatCount(value)} ${unit}`.replace(/ (\w) FLOP/, " $1FLOP");
    default:
      return `${Number(value.toPrecision(6))} ${unit}`.trim();
  }
}
