/** Pointers, wheel and keys of the canvas, as moves of the camera and actions on what is hit. */

export interface Actions {
  pan(dx: number, dy: number): void;
  /** A frame is drawn by dragging with Shift; null takes it back. */
  frame(frame: Frame | null, done: boolean): void;
  zoom(factor: number, x: number, y: number): void;
  hover(point: { x: number; y: number } | null): void;
  click(x: number, y: number): void;
  doubleClick(x: number, y: number): void;
  /** Return whether the key meant something. */
  key(event: KeyboardEvent): boolean;
}

/** From where a drag began to where it is, on the canvas. */
export interface Frame {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

/** A pointer that moves less than this between down and up has clicked. */
const CLICK = 4;
const LINE = 16;

export function listen(canvas: HTMLCanvasElement, actions: Actions): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  /** Where a frame begins, while one is drawn. */
  let corner: { x: number; y: number } | null = null;
  const frameTo = (point: { x: number; y: number }): Frame | null =>
    corner && { x1: corner.x, y1: corner.y, x2: point.x, y2: point.y };

  const place = (event: MouseEvent) => {
    const bounds = canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  };

  const on = <K extends keyof HTMLElementEventMap>(
    type: K,
    handler: (event: HTMLElementEventMap[K]) => void,
    options: AddEventListenerOptions = {},
  ) => canvas.addEventListener(type, handler, { ...options, signal });

  on("pointerdown", (event) => {
    if (event.button > 1) return;
    canvas.setPointerCapture?.(event.pointerId);
    down.set(event.pointerId, place(event));
    if (down.size === 1) {
      moved = 0;
      corner = event.shiftKey && event.button === 0 ? place(event) : null;
    }
  });
  on("pointermove", (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (!before) {
      actions.hover(now);
      return;
    }
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    moved += Math.abs(dx) + Math.abs(dy);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    down.set(event.pointerId, now);
    if (other) {
      const [from, to] = [distance(before, other), distance(now, other)];
      if (from > 0) actions.zoom(to / from, (now.x + other.x) / 2, (now.y + other.y) / 2);
      actions.pan(dx / 2, dy / 2);
    } else if (corner) {
      canvas.style.cursor = "crosshair";
      if (moved > CLICK) actions.frame(frameTo(now), false);
    } else if (moved > CLICK) {
      canvas.style.cursor = "grabbing";
      actions.pan(dx, dy);
    }
  });
  const release = (event: PointerEvent) => {
    const last = down.get(event.pointerId);
    down.delete(event.pointerId);
    canvas.style.cursor = "";
    if (corner && last && down.size === 0 && moved > CLICK) {
      actions.frame(event.type === "pointerup" ? frameTo(last) : null, true);
    }
    if (down.size === 0) corner = null;
    if (last && down.size === 0 && moved <= CLICK && event.type === "pointerup") {
      actions.click(last.x, last.y);
    }
  };
  on("pointerup", release);
  on("pointercancel", release);
  on("pointerleave", () => actions.hover(null));
  on("dblclick", (event) => {
    const { x, y } = place(event);
    actions.doubleClick(x, y);
  });
  on(
    "wheel",
    (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? canvas.clientHeight : 1;
      const { x, y } = place(event);
      if (event.ctrlKey || event.metaKey)
        actions.zoom(Math.exp(-event.deltaY * unit * 0.0022), x, y);
      else if (event.shiftKey) actions.pan(-(event.deltaX || event.deltaY) * unit, 0);
      else actions.pan(-event.deltaX * unit, -event.deltaY * unit);
    },
    { passive: false },
  );
  on("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (actions.key(event)) event.preventDefault();
  });
  return () => stop.abort();
}

function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
