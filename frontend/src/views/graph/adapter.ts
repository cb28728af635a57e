/** The API's view of a plan → what the canvas draws. */

import { bucketName, sharedBuckets } from "../../document/buckets";
import { formatBytes } from "./format";
import { buildGroups } from "./groups";
import type {
  BadgeView,
  Delivery,
  Direction,
  EdgeView,
  GraphBox,
  GraphModel,
  GraphTensor,
  NodeView,
  ParameterRow,
  PlanView,
} from "./model";

export function fromPlanView(view: PlanView): GraphModel {
  const { groups, groupOf, finish } = buildGroups(view);
  const boxes: GraphBox[] = [];
  const boxOf = new Map<string, number>();
  const add = (box: GraphBox): number => {
    boxOf.set(box.id, boxes.length);
    return boxes.push(box) - 1;
  };

  // Values that come from outside stand before the operators, so that they are drawn at the top.
  const inputs = view.edges.filter((edge) => edge.kind === "input" && edge.readers.length > 0);
  for (const edge of inputs) add(port(edge, "input", -1));
  const carried = carries(view);
  const rows = parameterRows(view);
  const seenScopes = new Set<string>();
  for (const node of view.nodes) {
    if (!seenScopes.has(node.scope)) {
      seenScopes.add(node.scope);
      for (const edge of carried.get(node.scope) ?? []) {
        add(port(edge, "carry", runAround(groupOf.get(node.group) ?? -1, groups)));
      }
    }
    add(operator(node, groupOf.get(node.group) ?? -1, rows.get(node.id) ?? []));
  }

  const tensors: GraphTensor[] = [];
  const deliveries: Delivery[] = [];
  const readerOf = readerResolver(view, boxOf, carried);
  for (const edge of bundled(view.edges)) {
    const producer = boxOf.get(edge.producer) ?? boxOf.get(portId(edge.id));
    if (producer === undefined || edge.kind === "parameter") continue;
    const tensor = tensors.length;
    const readers = unique(edge.readers.map((id) => readerOf(edge, id)));
    const made: Record<Direction, number[]> = { forward: [], backward: [] };
    for (const steps of byReaders(edge.badges)) {
      const phase = phaseOf(steps[0]);
      const served = unique((steps[0]?.readers ?? []).map((id) => readerOf(edge, id)));
      made[phase].push(deliveries.push({ tensor, phase, readers: served, steps }) - 1);
    }
    const { id, label } = edge;
    tensors.push({ id, label, producer, readers, layout: edge.tensor.layout, deliveries: made });
  }
  finish(boxes, tensors, deliveries);
  return { name: view.model, boxes, groups, tensors, deliveries, boxOf, groupOf };
}

function portId(edge: string): string {
  return `port:${edge}`;
}

function port(edge: EdgeView, kind: "input" | "carry", parent: number): GraphBox {
  return {
    id: portId(edge.id),
    kind,
    parent,
    title: edge.label,
    subtitle: kind === "input" ? "input" : "from layer to layer",
    cells: edge.tensor.cells,
    partial: edge.tensor.partial,
    reduce: edge.tensor.reduce,
    layout: edge.tensor.layout,
    parameters: [],
  };
}

function operator(node: NodeView, parent: number, parameters: readonly ParameterRow[]): GraphBox {
  const result = node.results[0];
  return {
    id: node.id,
    kind: "op",
    parent,
    title: node.label,
    subtitle: node.op.replace(/_/g, " ") + (node.recomputed ? " · recomputed" : ""),
    cells: result?.cells ?? [],
    partial: result?.partial ?? [],
    reduce: result?.reduce ?? "",
    layout: result?.layout ?? "",
    parameters,
  };
}

/** Carried values by the scope that they are carried in. */
function carries(view: PlanView): Map<string, EdgeView[]> {
  const found = new Map<string, EdgeView[]>();
  const scopeOf = new Map(view.nodes.map((node) => [node.id, node.scope]));
  for (const edge of view.edges) {
    if (edge.kind !== "carry" || edge.producer !== "") continue;
    const scope = scopeOf.get(edge.readers[0] ?? "");
    if (scope === undefined) continue;
    found.set(scope, [...(found.get(scope) ?? []), edge]);
  }
  return found;
}

function runAround(group: number, groups: readonly { parent: number; kind: string }[]): number {
  let at = group;
  while (at >= 0 && groups[at]?.kind !== "run") at = groups[at]?.parent ?? -1;
  return at;
}

/**
 * Return which box reads an edge. A value that enters a run is read by the carry port of the value that the reader
 * itself names; one that the reader names is captured, and read directly.
 */
function readerResolver(
  view: PlanView,
  boxOf: ReadonlyMap<string, number>,
  carried: ReadonlyMap<string, readonly EdgeView[]>,
): (edge: EdgeView, reader: string) => number | undefined {
  const nodes = new Map(view.nodes.map((node) => [node.id, node]));
  return (edge, reader) => {
    const node = nodes.get(reader);
    const own = edge.kind === "carry" || node?.operands.some((o) => o.value === edge.value);
    if (node && !own) {
      for (const carry of carried.get(node.scope) ?? []) {
        const named = node.operands.some((operand) => operand.value === carry.value);
        if (named && carry.readers.includes(reader)) return boxOf.get(portId(carry.id));
      }
    }
    return boxOf.get(reader);
  };
}

/** Rows of parameters by the operator that reads them; each collective stands in the first of its readers. */
function parameterRows(view: PlanView): Map<string, ParameterRow[]> {
  const edges = new Map<string, EdgeView>();
  for (const edge of view.edges) {
    if (edge.kind !== "parameter") continue;
    for (const reader of edge.readers) edges.set(`${reader} ${edge.value}`, edge);
  }
  const rows = new Map<string, ParameterRow[]>();
  for (const node of view.nodes) {
    const own = node.operands.filter((operand) => operand.parameter);
    if (own.length === 0) continue;
    rows.set(
      node.id,
      own.map((operand) => {
        const edge = edges.get(`${node.id} ${operand.value}`);
        const badges = (edge?.badges ?? []).filter((badge) => badge.readers[0] === node.id);
        const host = edge?.place === "host" ? " (host)" : "";
        return {
          name: operand.slot + host,
          value: operand.value,
          layout: (edge?.tensor ?? operand).layout,
          cells: (edge?.tensor ?? operand).cells.map((cell, dim) => ({
            ...cell,
            // The stored tensor names no factors; those of the reader say what its dims mean.
            factors: operand.cells[dim]?.factors ?? cell.factors,
          })),
          steps: {
            forward: badges.filter((badge) => badge.phase === "forward"),
            backward: badges.filter((badge) => badge.phase === "backward"),
          },
          bucket: bucketOf(view, badges),
        };
      }),
    );
  }
  return rows;
}

/** In which bucket gradients are reduced together with others, e.g. `bucket 4–11 · 48 MiB`. */
function bucketOf(view: PlanView, badges: readonly BadgeView[]): string {
  const buckets = view.buckets ?? [];
  const shared = [...new Set(badges.flatMap((badge) => sharedBuckets(buckets, badge)))];
  if (shared.length === 0) return "";
  const names = shared.map((at) => bucketName(buckets, at)).join(", ");
  const bytes = Math.max(...shared.map((at) => buckets[at]?.nbytes ?? 0));
  return `bucket ${names} · ${formatBytes(bytes)}`;
}

/** Tensors without collectives that run from one operator to the same readers are drawn as one line. */
function bundled(edges: readonly EdgeView[]): EdgeView[] {
  const kept: EdgeView[] = [];
  const places = new Map<string, number>();
  for (const edge of edges) {
    const key = `${edge.producer} ${edge.readers.join(" ")}`;
    const place = places.get(key);
    const first = place === undefined ? undefined : kept[place];
    if (place !== undefined && first && edge.producer && !edge.badges.length) {
      kept[place] = { ...first, label: `${first.label}, ${edge.label}` };
      continue;
    }
    if (edge.producer && edge.badges.length === 0) places.set(key, kept.length);
    kept.push(edge);
  }
  return kept;
}

/** Badges of one phase with the same readers are the steps of one delivery. */
function byReaders(badges: readonly BadgeView[]): BadgeView[][] {
  const found = new Map<string, BadgeView[]>();
  for (const badge of badges) {
    const key = `${badge.phase} ${badge.readers.join(" ")}`;
    const steps = found.get(key);
    if (steps) steps.push(badge);
    else found.set(key, [badge]);
  }
  return [...found.values()];
}

function phaseOf(badge: BadgeView | undefined): Direction {
  return badge?.phase === "backward" ? "backward" : "forward";
}

function unique(values: readonly (number | undefined)[]): number[] {
  return [...new Set(values.filter((value) => value !== undefined))];
}
