// What the page tells of gradients, places and recomputation: what is so, and what edits that wait for an answer make it.
import type {
  Change,
  EdgeView,
  Gradients,
  NodeView,
  ParameterDecision,
  PlanState,
  PlanView,
  PresetEntry,
} from "../api/types";
import { collectivesIn } from "./buckets";

/** What several things have in common, or that they differ. */
export type Common<T> = T | "mixed";

export type Place = "device" | "host";
/** What of a parameter has a place. */
export type Placed = "storage" | "optimizer";
export const PLACED: readonly Placed[] = ["storage", "optimizer"];

function common<T>(values: readonly T[], none: T): Common<T> {
  const [first = none] = values;
  return values.every((value) => value === first) ? first : "mixed";
}

/** The gradients as decided, with the edits that wait. */
export function gradientsNow(plan: PlanState, unsent: readonly Change[]): Gradients {
  const last = unsent.findLast((change) => change.type === "gradients");
  if (!last) return plan.gradients;
  const { type: _, ...wanted } = last;
  return { ...plan.gradients, ...wanted };
}

export function precisionNow(plan: PlanState, unsent: readonly Change[]): string {
  return unsent.findLast((change) => change.type === "precision")?.name ?? plan.precision;
}

export function placeOf(edge: EdgeView, of: Placed): Place {
  return (of === "storage" ? edge.place : edge.optimizer_place) === "host" ? "host" : "device";
}

/** Where all parameters lie, or their optimizer state. */
export function placeNow(view: PlanView, unsent: readonly Change[], of: Placed): Common<Place> {
  const parameters = view.edges.filter((edge) => edge.kind === "parameter");
  return (
    wantedPlace(unsent, "*", of) ??
    common(
      parameters.map((edge) => placeOf(edge, of)),
      "device",
    )
  );
}

/** The place that an edit which waits asks for, for exactly this target. */
export function wantedPlace(unsent: readonly Change[], target: string, of: Placed): Place | null {
  const last = unsent.findLast(
    (change) =>
      change.type === "parameter" &&
      change.target === target &&
      (change.of ?? "storage") === of &&
      change.place,
  );
  return last?.type === "parameter" ? (last.place ?? null) : null;
}

/** Whether operators are computed again in backward; with an edit that waits for exactly this target. */
export function recomputedNow(
  nodes: readonly NodeView[],
  unsent: readonly Change[],
  target: string,
): Common<boolean> {
  const last = unsent.findLast(
    (change) => change.type === "recompute" && change.target === target && change.again !== null,
  );
  if (last?.type === "recompute") return last.again ?? true;
  return common(
    nodes.map((node) => node.recomputed),
    false,
  );
}

/** The presets that say nothing but what is computed again; those that are named first, in that order. */
export function recomputePresets(
  presets: readonly PresetEntry[],
  named: readonly string[] = [],
): PresetEntry[] {
  const place = ({ name }: PresetEntry) => (named.includes(name) ? named.indexOf(name) : Infinity);
  return presets
    .filter((preset) => preset.recompute.length > 0 && preset.axes.length === 0)
    .sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

/** The preset that the decisions on recomputation are, `none`, or that they are others. */
export function recomputeMode(plan: PlanState, presets: readonly PresetEntry[]): Common<string> {
  const targets = plan.decisions.flatMap((decision) =>
    decision.type === "recompute" ? [decision] : [],
  );
  if (targets.length === 0) return "none";
  const made = recomputePresets(presets).find((preset) =>
    targets.every(({ target, again }) => again && preset.recompute.includes(target)),
  );
  return made?.name ?? "mixed";
}

/** Positions such as `3, 17` in rising order, or why they are none. */
export function readPositions(text: string): { positions: number[] } | { fault: string } {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const bad = words.find((word) => !/^\d{1,9}$/.test(word) || Number(word) < 1);
  if (bad !== undefined) return { fault: `“${bad}” is no position from 1 on.` };
  const positions = [...new Set(words.map(Number))].sort((a, b) => a - b);
  return positions.length > 0 ? { positions } : { fault: "Give a position from 1 on." };
}

/** How many buckets there are, and the bytes of the largest. */
export function bucketTotals(view: PlanView): { count: number; largest: number } {
  return {
    count: view.buckets.reduce((total, bucket) => total + bucket.count, 0),
    largest: Math.max(0, ...view.buckets.map((bucket) => bucket.nbytes)),
  };
}

/** The collectives of a step that serve some operators: each of its own once, and those of whole buckets. */
export function collectivesOf(view: PlanView, inside: ReadonlySet<string>): number {
  const badges = view.edges
    .filter((edge) => edge.readers.some((id) => inside.has(id)))
    .flatMap((edge) => edge.badges)
    // Slices and the like move nothing between ranks.
    .filter((badge) => badge.wire_bytes > 0);
  const buckets = new Set(badges.flatMap((badge) => badge.buckets));
  const own = badges.filter((badge) => badge.buckets.length === 0);
  return (
    own.reduce((total, badge) => total + badge.count, 0) +
    [...buckets].reduce((total, at) => total + collectivesIn(view.buckets[at]), 0)
  );
}

/** What a decision on parameters says, before the axes that it names. */
export function parameterText(decision: ParameterDecision): string {
  const { of, axes, layout, place, regather, deferred } = decision;
  const words = [of === "storage" ? "" : of];
  if (place) words.push(`on ${place}`);
  if (regather) words.push("fetched again");
  if (deferred) words.push("once a step");
  if (layout) words.push(layout);
  else if (axes.length > 0) words.push("over");
  else if (!place && !regather && !deferred) words.push(of === "storage" ? "as read" : "as before");
  return words.filter(Boolean).join(" ");
}
