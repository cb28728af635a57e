/** The few drawing commands that painting uses: a canvas context has them, and the SVG writer offers them too. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "beginPath"
  | "bezierCurveTo"
  | "closePath"
  | "fill"
  | "fillRect"
  | "fillStyle"
  | "fillText"
  | "font"
  | "globalAlpha"
  | "lineTo"
  | "lineWidth"
  | "moveTo"
  | "roundRect"
  | "setLineDash"
  | "stroke"
  | "strokeStyle"
  | "textAlign"
>;

export function roundBox(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number | number[],
): void {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}
