/** The tooltip of the canvas: it follows the pointer and stays in the window. */
export class Tip {
  private readonly element = document.createElement("div");

  constructor(host: HTMLElement) {
    this.element.className = "graph-tip";
    this.element.hidden = true;
    host.append(this.element);
  }

  show(
    lines: readonly string[],
    point: { x: number; y: number } | null,
    room: { width: number; height: number },
  ): void {
    this.element.hidden = lines.length === 0;
    if (!point || lines.length === 0) return;
    this.element.replaceChildren(
      ...lines.map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }),
    );
    const { offsetWidth, offsetHeight } = this.element;
    const left = Math.max(4, Math.min(point.x + 14, room.width - offsetWidth - 8));
    const below = point.y + 18 + offsetHeight < room.height;
    const top = below ? point.y + 18 : point.y - offsetHeight - 10;
    this.element.style.transform = `translate(${left}px, ${top}px)`;
  }
}
