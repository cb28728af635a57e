/** A pen that writes SVG, so that the same painting code exports the graph as a drawing. */

import type { Measure } from "./art";
import type { Pen } from "./pen";

const escaped = (text: string) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const short = (value: number) => String(Math.round(value * 100) / 100);

export class SvgPen implements Pen {
  fillStyle: Pen["fillStyle"] = "#000000";
  strokeStyle: Pen["strokeStyle"] = "#000000";
  lineWidth = 1;
  font = "12px sans-serif";
  textAlign: CanvasTextAlign = "left";
  globalAlpha = 1;
  private path: string[] = [];
  private dash: number[] = [];
  private readonly parts: string[] = [];

  /** Texts keep the measured widths, so that the drawing holds where the font is missing. */
  constructor(
    private readonly margin: number,
    private readonly measure: Measure,
  ) {}

  beginPath(): void {
    this.path = [];
  }
  moveTo(x: number, y: number): void {
    this.path.push(`M${short(x)} ${short(y)}`);
  }
  lineTo(x: number, y: number): void {
    this.path.push(`L${short(x)} ${short(y)}`);
  }
  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.path.push(`C${[x1, y1, x2, y2, x, y].map(short).join(" ")}`);
  }
  closePath(): void {
    this.path.push("Z");
  }
  roundRect(
    x: number,
    y: number,
    width: number,
    height: number,
    radii: Parameters<Pen["roundRect"]>[4] = 0,
  ): void {
    const given = (Array.isArray(radii) ? radii : [radii]).map((radius) => Number(radius));
    const r = (corner: number) =>
      Math.min(given[given.length === 4 ? corner : 0] ?? 0, width / 2, height / 2);
    const [a, b, c, d] = [r(0), r(1), r(2), r(3)];
    const arc = (radius: number, px: number, py: number) =>
      radius > 0 ? `A${[radius, radius, 0, 0, 1, px, py].map(short).join(" ")}` : "";
    this.path.push(
      `M${short(x + a)} ${short(y)}H${short(x + width - b)}${arc(b, x + width, y + b)}` +
        `V${short(y + height - c)}${arc(c, x + width - c, y + height)}` +
        `H${short(x + d)}${arc(d, x, y + height - d)}V${short(y + a)}${arc(a, x + a, y)}Z`,
    );
  }
  setLineDash(dash: Iterable<number>): void {
    this.dash = [...dash];
  }
  fill(): void {
    this.parts.push(`<path d="${this.path.join("")}" fill="${String(this.fillStyle)}"/>`);
  }
  stroke(): void {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.parts.push(
      `<path d="${this.path.join("")}" fill="none" stroke="${String(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}"${dash}/>`,
    );
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(
      `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${String(this.fillStyle)}"/>`,
    );
  }
  fillText(text: string, x: number, y: number): void {
    const anchor = this.textAlign === "center" ? ' text-anchor="middle"' : "";
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" style="font:${escaped(this.font)}" fill="${String(this.fillStyle)}"${anchor}${alpha} textLength="${short(this.measure(this.font, text))}" lengthAdjust="spacingAndGlyphs">${escaped(text)}</text>`,
    );
  }

  /** Return the drawing, with a ground of one colour. */
  document(width: number, height: number, ground: string): string {
    const [w, h] = [Math.ceil(width), Math.ceil(height)];
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">` +
      `<rect width="${w}" height="${h}" fill="${ground}"/>` +
      `<g transform="translate(${this.margin} ${this.margin})">${this.parts.join("")}</g></svg>`
    );
  }
}
