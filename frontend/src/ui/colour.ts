// Hue means mesh axis, everywhere; the palette is Okabe and Ito's, which colour-blind people can tell apart.

const HUES: [RegExp, string][] = [
  [/^(f?s?dp|data|replica|shard|hsdp|batch)/, "#0072B2"],
  [/^(tp|tensor|model|mp)/, "#E69F00"],
  [/^(pp|pipe|stage)/, "#009E73"],
  [/^(cp|sp|seq|context)/, "#CC79A7"],
  [/^(ep|expert)/, "#56B4E9"],
];
const SPARE = ["#D55E00", "#B8A92F", "#8E7CC3", "#7FA37A"];

function channels(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Mixes a colour with white (part > 0) so that the parts of a split axis stay one family. */
function lighten(colour: string, part: number): string {
  const mixed = channels(colour).map((c) => Math.round(c + (255 - c) * part));
  return `#${mixed.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

function luminance(colour: string): number {
  const [r, g, b] = channels(colour).map((c) => {
    const s = c / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Near-black or white, whichever reads better on a fill. */
export function textOn(fill: string): string {
  const light = luminance(fill);
  return (light + 0.05) / 0.055 > 1.05 / (light + 0.05) ? "#10151d" : "#ffffff";
}

/** A colour for every axis of a mesh. */
export function axisColours(names: readonly string[]): Record<string, string> {
  const colours: Record<string, string> = {};
  const used = new Map<string, number>();
  let spare = 0;
  for (const name of names) {
    const known = HUES.find(([pattern]) => pattern.test(name.toLowerCase()))?.[1];
    const hue = known ?? SPARE[spare++ % SPARE.length] ?? "#888888";
    const before = used.get(hue) ?? 0;
    used.set(hue, before + 1);
    colours[name] = before === 0 ? hue : lighten(hue, Math.min(0.3 * before, 0.7));
  }
  return colours;
}

/** Colours of quantities; muted, so that they are not taken for axes. */
export const TIME_COLOURS = {
  compute: "#5d7193",
  communication: "#a98467",
  bubble: "#c9b458",
  optimizer: "#9aa3b0",
};
export const MEMORY_COLOURS = [
  "#3f5878",
  "#5d7ca3",
  "#8aa4c6",
  "#b59a6d",
  "#7d8f74",
  "#a08f80",
  "#7f8792",
  "#646b76",
];

const KINDS: Record<string, string> = {
  all_gather: "AG",
  reduce_scatter: "RS",
  all_reduce: "AR",
  all_to_all: "A2A",
  permute: "PERM",
  exchange: "X",
  sum_exchange: "SX",
  send_recv: "SR",
  slice: "slice",
  zero: "zero",
};

/** The short name of a collective's kind. */
export function shortKind(kind: string): string {
  return KINDS[kind] ?? kind;
}

export function longKind(kind: string): string {
  return kind.replaceAll("_", "-");
}
