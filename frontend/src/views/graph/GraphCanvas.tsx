import { type Ref, useImperativeHandle } from "react";
import type { PlanView } from "../../api/types";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface GraphHandle {
  fit(): void;
  center(id: string): void;
  /** Where a node is on screen, in CSS pixels of the page; null when it is hidden in a closed group. */
  screenOf(id: string): Box | null;
  open(id: string): void;
  close(id: string): void;
}

export interface GraphCanvasProps {
  view: PlanView;
  axisColours: Record<string, string>;
  selected: string | null;
  direction: "forward" | "backward";
  dark: boolean;
  pending: boolean;
  onSelect(id: string | null): void;
  onOpenChange?(open: readonly string[]): void;
  ref?: Ref<GraphHandle>;
}

/** Stands in until the canvas lands: a plain list of the operators. */
export function GraphCanvas({ view, selected, onSelect, ref }: GraphCanvasProps) {
  useImperativeHandle(ref, () => ({
    fit() {},
    center() {},
    screenOf: () => null,
    open() {},
    close() {},
  }));
  return (
    <ul aria-label="Graph" style={{ overflow: "auto", height: "100%", margin: 0 }}>
      {view.nodes.map((node) => (
        <li key={node.id}>
          <button
            type="button"
            aria-pressed={node.id === selected}
            onClick={() => onSelect(node.id)}
          >
            {node.name}
          </button>
        </li>
      ))}
    </ul>
  );
}
