import type { KeyboardEvent, PointerEvent } from "react";
import classes from "./Resizer.module.css";

const STEP = 16;

/** The line between two panels, to be dragged or moved by arrow keys. */
export function Resizer({
  label,
  side,
  size,
  min,
  max,
  onResize,
}: {
  label: string;
  /** Where the panel lies whose size it sets. */
  side: "left" | "right" | "below";
  size: number;
  min: number;
  max: number;
  onResize(size: number): void;
}) {
  const upright = side !== "below";
  const grow = side === "left" ? 1 : -1;
  const set = (value: number) => onResize(Math.round(Math.max(min, Math.min(max, value))));

  function drag(event: PointerEvent<HTMLDivElement>) {
    const handle = event.currentTarget;
    const start = upright ? event.clientX : event.clientY;
    handle.setPointerCapture(event.pointerId);
    const move = (moved: globalThis.PointerEvent) =>
      set(size + grow * ((upright ? moved.clientX : moved.clientY) - start));
    handle.addEventListener("pointermove", move);
    handle.addEventListener(
      "lostpointercapture",
      () => handle.removeEventListener("pointermove", move),
      { once: true },
    );
  }

  function key(event: KeyboardEvent) {
    const back = upright ? "ArrowLeft" : "ArrowUp";
    const on = upright ? "ArrowRight" : "ArrowDown";
    if (event.key !== back && event.key !== on) return;
    event.preventDefault();
    event.stopPropagation();
    set(size + grow * (event.key === on ? STEP : -STEP));
  }

  return (
    // biome-ignore lint/a11y/useSemanticElements: an <hr> can't be focused and moved.
    <div
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={upright ? "vertical" : "horizontal"}
      aria-valuenow={size}
      aria-valuemin={min}
      aria-valuemax={max}
      className={classes["resizer"]}
      data-upright={upright}
      onPointerDown={drag}
      onKeyDown={key}
    />
  );
}
