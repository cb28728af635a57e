// Looking closer at a part of the plan: what the parts of the page ask of the one that shows dialogs and panels.
import { createContext, useContext } from "react";
import type { Part } from "../document/code";

export interface Look {
  /** Step through the redistribution that a collective is a step of: an edge's id, a position among its badges. */
  redistribution(edge: string, badge: number): void;
  /** Show the buckets of gradients, with those at some positions of the view standing out. */
  buckets(positions: readonly number[]): void;
  /** Show who holds what: of a node's slot, or, with an empty slot, of an edge's value. */
  slices(of: SliceSource): void;
  /** Show the lines of the exported code that an operator or an edge is written on. */
  code(part: Part): void;
}

export interface SliceSource {
  node: string;
  slot: string;
  title: string;
  /** What each dim is called. */
  dims: readonly string[];
  dtype: string;
}

export const LookContext = createContext<Look | null>(null);

export function useLook(): Look {
  const look = useContext(LookContext);
  if (!look) throw new Error("Nothing shows dialogs here.");
  return look;
}
