// Exported code beside the graph: which lines stand for what is selected, and the rows of a comparison.
import type { CodeMark, DiffRange, EdgeView, PlanView } from "../api/types";

/** What is selected in the plan: an operator or group, and perhaps an edge. */
export interface Selected {
  selected: string | null;
  edge: string | null;
}

/** An operator or an edge; a value that an operator makes may have the operator's id. */
export interface Part {
  kind: "node" | "edge";
  id: string;
}

/** The marks of a file by the number of their first line. */
export function marksIn(marks: readonly CodeMark[], path: string): Map<number, CodeMark> {
  return new Map(marks.filter((mark) => mark.path === path).map((mark) => [mark.first, mark]));
}

/** Whether the lines stand for what is selected: for the edge if there is one, else for the operator. */
export function isCurrent(mark: CodeMark, { selected, edge }: Selected): boolean {
  if (edge !== null) return mark.edges.includes(edge);
  return selected !== null && mark.nodes.includes(selected);
}

/** Where an operator or an edge is written; where it moves something rather than where it is updated. */
export function placeOf(marks: readonly CodeMark[], { kind, id }: Part): CodeMark | null {
  const found = marks.filter((mark) => mark[`${kind}s`].includes(id));
  // A parameter's update stands in `__init__`, before the call that brings it to its readers.
  return found.at(-1) ?? null;
}

/** What a click on a mark selects: its first id, or of several runs' the one after what is selected now. */
export function chosen(mark: CodeMark, { selected, edge }: Selected): string {
  const ids = [...mark.edges, ...mark.nodes];
  const now = ids.indexOf((mark.edges.length > 0 ? edge : selected) ?? "");
  return ids[(now + 1) % ids.length] ?? "";
}

/** What a mark stands for, in words. */
export function describeMark(mark: CodeMark, view: PlanView): string {
  const edge = view.edges.find(({ id }) => id === mark.edges[0]);
  const node = view.nodes.find(({ id }) => id === mark.nodes[0]);
  const runs = Math.max(mark.edges.length, mark.nodes.length);
  const more = runs > 1 ? ` and ${runs - 1} more` : "";
  return edge ? `the edge ${nameOf(edge)}${more}` : `the operator ${node?.label ?? ""}${more}`;
}

/** A parameter is called with its module: every second one is a `weight`. */
export function nameOf({ kind, label, value }: EdgeView): string {
  return kind === "parameter" ? value.split(".").slice(-2).join(".") : label;
}

export interface DiffRow {
  change: "same" | "out" | "in";
  /** Index of the line in the text before; null for one that was put in. */
  before: number | null;
  after: number | null;
}

/** A hunk as the rows of a unified comparison: what went, then what came. */
export function rowsOf(hunk: readonly DiffRange[]): DiffRow[] {
  return hunk.flatMap(({ change, before: [i, j], after: [k, n] }): DiffRow[] => {
    if (change === "equal") {
      return span(i, j).map((line) => ({ change: "same", before: line, after: k + line - i }));
    }
    return [
      ...span(i, j).map((line): DiffRow => ({ change: "out", before: line, after: null })),
      ...span(k, n).map((line): DiffRow => ({ change: "in", before: null, after: line })),
    ];
  });
}

/** How many lines were put in and taken out. */
export function countChanges(hunks: readonly (readonly DiffRange[])[]): [number, number] {
  const rows = hunks.flatMap(rowsOf);
  const count = (change: DiffRow["change"]) => rows.filter((row) => row.change === change).length;
  return [count("in"), count("out")];
}

/** Where a hunk lies, as in `diff -u`. */
export function hunkTitle(hunk: readonly DiffRange[]): string {
  const [first, last] = [hunk[0], hunk.at(-1)];
  if (!first || !last) return "";
  const at = (from: number, to: number) => `${to > from ? from + 1 : from},${to - from}`;
  return `@@ -${at(first.before[0], last.before[1])} +${at(first.after[0], last.after[1])} @@`;
}

function span(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, offset) => from + offset);
}
