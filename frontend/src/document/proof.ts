// What a proof found, beside the plan that is open.
import type { PlanView, ProofRow } from "../api/types";

/** What differs first, by how much; then the rest as it came. */
export function worstFirst(rows: readonly ProofRow[]): ProofRow[] {
  const size = (row: ProofRow) => row.error ?? Number.POSITIVE_INFINITY;
  const wrong = rows.filter((row) => !row.ok);
  // Sorting is stable, so that the loss stays before what is as wrong.
  return [...wrong.sort((a, b) => compare(size(b), size(a))), ...rows.filter((row) => row.ok)];
}

/** The operator and the edge that a wrong row points to, by their ids in the view; null where it names none. */
export function suspects(
  view: PlanView,
  row: ProofRow,
): { node: { id: string; label: string } | null; edge: { id: string; label: string } | null } {
  const { nodes, edges } = view;
  const node = row.node ? nodes.find(({ name }) => name === row.node) : undefined;
  const edge = row.edge ? edges.find(({ value }) => value === row.edge) : undefined;
  return { node: node ?? null, edge: edge ?? null };
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
