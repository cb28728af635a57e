// What an edit will surely change, drawn before the server has answered. It sets what was clicked and nothing that
// follows from it: layouts, collectives and costs are the server's to say.
import type { Change, FactorView, NodeView, PlanView, TensorView } from "../api/types";
import { layersOf } from "./layers";

export function draft(view: PlanView, changes: readonly Change[]): PlanView {
  const set = changes.flatMap((change) =>
    change.type === "factor" && change.axes !== null ? [{ ...change, axes: change.axes }] : [],
  );
  if (set.length === 0) return view;
  const nodes = view.nodes.map((node) => {
    const mine = set.filter((change) => namesAllOf(view, node, change.target));
    return mine.length === 0
      ? node
      : draftNode(node, new Map(mine.map(({ factor, axes }) => [factor, axes])));
  });
  return { ...view, nodes };
}

/** Whether a target that the page made from this node's own names every layer that the node stands for. */
function namesAllOf(view: PlanView, node: NodeView, target: string): boolean {
  if (target === node.target) return true;
  const wanted = target.split(".");
  const tokens = node.target.split(".");
  if (wanted.length !== tokens.length) return false;
  return tokens.every((token, position) => {
    if (token === wanted[position]) return true;
    const range = /^(\d+)(?:-(\d+))?$/.exec(wanted[position] ?? "");
    const layers = token === "*" && range ? layersOf(view, node) : null;
    if (!range || !layers) return false;
    return Number(range[1]) <= layers.first && layers.last <= Number(range[2] ?? range[1]);
  });
}

function draftNode(node: NodeView, set: ReadonlyMap<string, string[]>): NodeView {
  const factors = node.factors.map((factor): FactorView => {
    const axes = set.get(factor.name);
    return axes ? { ...factor, axes, pinned: true } : factor;
  });
  const axesOf = new Map(factors.map((factor) => [factor.name, factor.axes]));
  const redraw = (tensor: TensorView): TensorView => ({
    ...tensor,
    cells: tensor.cells.map((cell) => ({
      ...cell,
      axes: cell.factors.flatMap((factor) => axesOf.get(factor) ?? []),
    })),
  });
  return {
    ...node,
    factors,
    operands: node.operands.map(redraw),
    results: node.results.map(redraw),
  };
}

/** Later settings of the same thing replace earlier ones, so that a burst of clicks is one short request. */
export function merge(changes: readonly Change[]): Change[] {
  const merged: Change[] = [];
  for (const change of changes) {
    if (change.type === "factor") {
      const before = merged.findIndex(
        (other) =>
          other.type === "factor" &&
          other.target === change.target &&
          other.factor === change.factor,
      );
      // Not across a change of another type: presets and meshes read what stands before them.
      if (before > merged.findLastIndex((other) => other.type !== "factor")) {
        merged.splice(before, 1);
      }
    }
    // Each says all that is decided on gradients, and nothing else is read by them.
    const last = merged.at(-1);
    if (change.type === "gradients" && last?.type === "gradients") merged.pop();
    merged.push(change);
  }
  return merged;
}
