// From what a person does to the changes that the API takes, each with the label that undo shows.
import type { Change, Choice, Decision, MeshAxis, NodeView, PresetEntry } from "../api/types";
import type { Reach } from "../document/layers";
import { layersText, targetFor } from "../document/layers";
import type { Step } from "../document/planDocument";

/** The axes of a factor as drawn now, or as the choices say where the operator is a part of the one that is edited. */
export function axesNow(node: NodeView, choices: readonly Choice[], factor: string): string[] {
  const drawn = node.factors.find((candidate) => candidate.name === factor);
  if (drawn) return drawn.axes;
  return choices
    .filter((choice) => choice.factor === factor && choice.on)
    .map((choice) => choice.axis);
}

/** Clicking an axis at a factor: off if it is on, else on, leaving the factor where it was. */
export function toggleAxis(
  node: NodeView,
  choices: readonly Choice[],
  factor: string,
  axis: string,
  reach: Reach,
): Step {
  const target = targetFor(node.target, reach);
  const on = axesNow(node, choices, factor).includes(axis);
  const choice = choices.find(
    (candidate) => candidate.factor === factor && candidate.axis === axis,
  );
  // The choices may be of another state: before an edit that is not answered, or after one of another tab.
  const current = choices.every(
    (other) => axesNow(node, choices, other.factor).includes(other.axis) === other.on,
  );
  const sets = choice && current ? choice.sets : toggled(node, choices, factor, axis, on);
  const from = sets.find(([name, axes]) => name !== factor && !axes.includes(axis));
  const label = on
    ? `keep ${node.label} ${factor} whole over ${axis}`
    : from
      ? `move ${axis} of ${node.label} from ${from[0]} to ${factor}`
      : `split ${node.label} ${factor} over ${axis}`;
  return {
    changes: sets.map(([name, axes]) => ({ type: "factor", target, factor: name, axes })),
    label: label + layersText(reach),
    field: `factor:${factor}`,
    layer: reach.kind === "range" ? reach.first : null,
  };
}

function toggled(
  node: NodeView,
  choices: readonly Choice[],
  factor: string,
  axis: string,
  on: boolean,
): [string, string[]][] {
  const names = new Set(choices.map((choice) => choice.factor));
  const sets: [string, string[]][] = [];
  for (const name of names) {
    const now = axesNow(node, choices, name);
    const left = now.filter((other) => other !== axis);
    const after = name === factor && !on ? [...left, axis] : left;
    if (after.join() !== now.join()) sets.push([name, after]);
  }
  return sets;
}

/** What a factor of several operators says of an axis: on all of them, on none, or on some. */
export type Shared = "on" | "off" | "mixed";

export interface Marked {
  node: NodeView;
  choices: readonly Choice[];
}

/** The factors that all of several operators have, in the order of the first. */
export function sharedFactors(marked: readonly Marked[]): string[] {
  const [first, ...rest] = marked.map(
    ({ choices }) => new Set(choices.map((choice) => choice.factor)),
  );
  return [...(first ?? [])].filter((factor) => rest.every((names) => names.has(factor)));
}

export function sharedAxis(marked: readonly Marked[], factor: string, axis: string): Shared {
  const on = marked.filter(({ node, choices }) => axesNow(node, choices, factor).includes(axis));
  return on.length === 0 ? "off" : on.length === marked.length ? "on" : "mixed";
}

/** The operators that a click on a shared axis changes: all where it is on all, else those where it is off. */
export function changedBy(marked: readonly Marked[], factor: string, axis: string): Marked[] {
  const off = sharedAxis(marked, factor, axis) === "on";
  return marked.filter(
    ({ node, choices }) => axesNow(node, choices, factor).includes(axis) === off,
  );
}

/** Clicking an axis at a factor of several operators: one step of the history. */
export function toggleShared(marked: readonly Marked[], factor: string, axis: string): Step {
  const off = sharedAxis(marked, factor, axis) === "on";
  const changes = changedBy(marked, factor, axis).flatMap(
    ({ node, choices }) => toggleAxis(node, choices, factor, axis, { kind: "all" }).changes,
  );
  const label = off ? `keep ${factor} whole over ${axis}` : `split ${factor} over ${axis}`;
  return {
    changes,
    label: `${label} in ${marked.length} operators`,
    field: "marked",
    layer: null,
  };
}

/** Forget every decision on a factor: it follows the operands again. */
export function followAgain(node: NodeView, factor: string): Step {
  const pins = node.factors.find((candidate) => candidate.name === factor)?.pins ?? [];
  return {
    changes: pins.map((target) => ({ type: "factor", target, factor, axes: null })),
    label: `let ${node.label} ${factor} follow`,
    field: `factor:${factor}`,
    layer: null,
  };
}

/** Takes a decision back: a factor follows again, a partial result is finished where it arises. */
export function forget(decision: Decision): Step {
  const { target } = decision;
  if (decision.type === "parameter") {
    const { of } = decision;
    const what = of === "storage" ? target : `the ${of} of ${target}`;
    return whole("history", `forget where ${what} lies`, { ...decision, axes: null });
  }
  if (decision.type === "recompute") {
    return whole("history", `forget recompute of ${target}`, {
      type: "recompute",
      target,
      again: null,
    });
  }
  if (decision.type === "factor") {
    const { factor } = decision;
    return whole("history", `forget ${factor} of ${target}`, {
      type: "factor",
      target,
      factor,
      axes: null,
    });
  }
  const { axis } = decision;
  return whole("history", `forget partial ${axis} of ${target}`, {
    type: "keep",
    target,
    axis,
    carriers: null,
  });
}

/** Stores a parameter sharded over axes beside those that it is read over; `before` are those of now. */
export function storeParameter(
  value: string,
  before: readonly string[],
  axes: string[],
  regather: boolean,
  reach: Reach = { kind: "all" },
): Step {
  const name = value.split(/[./]/).slice(-2).join(".");
  const where =
    axes.length > 0 ? `shard ${name} over ${axes.join("·")}` : `store ${name} unsharded`;
  const target = targetFor(value.replaceAll("/", "."), reach);
  const change = (over: string[], again: boolean): Change => ({
    type: "parameter",
    target,
    of: "storage",
    axes: over,
    layout: null,
    regather: again,
    deferred: false,
  });
  // A decision adds axes to those of earlier ones; one without any takes them back.
  const fewer = before.some((axis) => !axes.includes(axis));
  const anew = axes.length > 0 || regather;
  return {
    changes: [...(fewer ? [change([], false)] : []), ...(anew ? [change(axes, regather)] : [])],
    label: where + (regather ? ", fetched again in backward" : "") + layersText(reach),
    field: `parameter:${value}`,
    layer: reach.kind === "range" ? reach.first : null,
  };
}

/** The axes that a preset can be put over; one that takes none is put once, over null. */
export function presetPlaces(preset: PresetEntry, axes: readonly string[]): (string | null)[] {
  return preset.axes.length > 0 ? [...axes] : [null];
}

export function presetLabel(preset: PresetEntry, axis: string | null): string {
  return axis === null ? presetTitle(preset.name) : `${presetTitle(preset.name)} over ${axis}`;
}

export function applyPreset(preset: PresetEntry, axis: string | null): Step {
  return {
    changes: [{ type: "preset", name: preset.name, axes: presetAxes(preset, axis) }],
    label: presetLabel(preset, axis),
    field: "preset",
    layer: null,
  };
}

export function presetAxes(preset: PresetEntry, axis: string | null): Record<string, string[]> {
  return axis === null ? {} : Object.fromEntries(preset.axes.map((open) => [open, [axis]]));
}

const TITLES: Record<string, string> = {
  data_parallel: "Data parallel",
  megatron: "Megatron tensor parallel",
  offload_optimizer: "Optimizer on the host",
  offload_parameters: "Parameters and optimizer on the host",
  recompute_full: "Recompute layers",
  recompute_selective: "Recompute attention",
  sequence_parallel: "Sequence parallel",
  zero1: "ZeRO-1",
  zero2: "ZeRO-2",
  zero3: "ZeRO-3",
};

export function presetTitle(name: string): string {
  const words = name.replaceAll("_", " ");
  return TITLES[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

function whole(field: string, label: string, change: Change): Step {
  return { changes: [change], label, field, layer: null };
}

export const clearAll = (): Step => whole("preset", "clear all decisions", { type: "clear" });

export const changeMesh = (cluster: string, axes: MeshAxis[]): Step =>
  whole("mesh", `mesh ${axes.map(({ name, size }) => `${name}:${size}`).join(" ")} on ${cluster}`, {
    type: "mesh",
    cluster,
    axes,
  });

export const splitAxis = (axis: string, sizes: number[]): Step =>
  whole("mesh", `cut ${axis} into ${sizes.join(" × ")}`, { type: "split_axis", axis, sizes });

export const changeBatch = (global_batch: number, seq: number, microbatches: number): Step =>
  whole("batch", `batch ${global_batch}${seq ? ` × ${seq}` : ""}, ${microbatches} microbatches`, {
    type: "batch",
    global_batch,
    seq,
    microbatches,
  });

export const changePrecision = (name: string): Step =>
  whole("precision", `precision ${name}`, { type: "precision", name });
