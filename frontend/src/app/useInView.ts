import { type RefObject, useEffect } from "react";
import type { GraphHandle } from "../views/graph/GraphCanvas";

/** Brings what is selected into view when it was selected elsewhere, or when a panel took its place. */
export function useInView(
  canvas: RefObject<GraphHandle | null>,
  frame: RefObject<HTMLElement | null>,
  selected: string | null,
  panel: string | null,
): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: a panel that opens or closes resizes the canvas.
  useEffect(() => {
    const graph = canvas.current;
    if (!graph || selected === null) return;
    let current = true;
    void graph.settled().then(() => {
      const box = current ? graph.screenOf(selected) : null;
      const room = frame.current?.getBoundingClientRect();
      if (!current || !room) return;
      if (!box) return graph.center(selected);
      const x = box.x + box.width / 2;
      const y = box.y + Math.min(box.height, 40) / 2;
      const inside = room.left < x && x < room.right && room.top < y && y < room.bottom;
      if (!inside) graph.center(selected);
    });
    return () => {
      current = false;
    };
  }, [canvas, frame, selected, panel]);
}
