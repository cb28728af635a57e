/** Colours of the canvas. Hue means mesh axis, everywhere and only; all else is grey. */

export interface Theme {
  readonly canvas: string;
  /** Fill of frames by depth; deeper ones use the last. */
  readonly frames: readonly string[];
  readonly frameLine: string;
  readonly closed: string;
  readonly box: string;
  readonly boxLine: string;
  readonly stripe: string;
  readonly stripeHeavy: string;
  readonly port: string;
  readonly text: string;
  readonly dim: string;
  readonly cell: string;
  readonly cellLine: string;
  readonly chip: string;
  readonly pill: string;
  readonly link: string;
  readonly linkHover: string;
  readonly select: string;
  readonly halo: string;
  readonly strip: string;
  readonly stripOn: string;
  readonly fallbackAxis: string;
}

export const LIGHT: Theme = {
  canvas: "#f6f8fb",
  frames: ["#edf1f7", "#e4eaf2", "#dbe2ed", "#d3dbe8"],
  frameLine: "#c3ccda",
  closed: "#dfe6f0",
  box: "#ffffff",
  boxLine: "#c6cfdc",
  stripe: "#c6cfdc",
  stripeHeavy: "#66758c",
  port: "#f6f8fb",
  text: "#18212e",
  dim: "#56647a",
  cell: "#e8edf4",
  cellLine: "#d3dbe7",
  chip: "#c9d3e2",
  pill: "#ffffff",
  link: "#96a3b6",
  linkHover: "#18212e",
  select: "#18212e",
  halo: "rgba(24, 33, 46, 0.14)",
  strip: "#c6cfdc",
  stripOn: "#5b6b83",
  fallbackAxis: "#66758c",
};

export const DARK: Theme = {
  canvas: "#0e1218",
  frames: ["#141a22", "#1a212b", "#202935", "#26303e"],
  frameLine: "#323e4e",
  closed: "#232d3a",
  box: "#28323f",
  boxLine: "#3f4d60",
  stripe: "#4a596e",
  stripeHeavy: "#93a3ba",
  port: "#0e1218",
  text: "#eaeff6",
  dim: "#a0aec1",
  cell: "#37434f",
  cellLine: "#455363",
  chip: "#3b4859",
  pill: "#161c25",
  link: "#5f6f84",
  linkHover: "#eaeff6",
  select: "#f4f7fb",
  halo: "rgba(244, 247, 251, 0.2)",
  strip: "#3f4d60",
  stripOn: "#a9b7cb",
  fallbackAxis: "#93a3ba",
};

function channel(value: number): number {
  const share = value / 255;
  return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

/** Return the relative luminance of `#rrggbb`. */
export function luminance(colour: string): number {
  const number = Number.parseInt(colour.slice(1, 7), 16);
  const [r, g, b] = [(number >> 16) & 255, (number >> 8) & 255, number & 255];
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
}

/** Return black or white, whichever reads better on a colour. */
export function textOn(colour: string): string {
  const light = luminance(colour);
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#101418" : "#ffffff";
}

/** Return the hue of an axis; parts of a split axis, such as `tp0`, share the hue of the whole. */
export function axisColour(
  axis: string,
  colours: Readonly<Record<string, string>>,
  theme: Theme,
): string {
  return colours[axis] ?? colours[axis.replace(/[.\d].*$/, "")] ?? theme.fallbackAxis;
}
