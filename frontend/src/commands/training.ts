// Edits on gradients, places and recomputation: what a person sets → changes, each with the label that undo shows.
import type { Change, Gradients, PlanState, PresetEntry } from "../api/types";
import { layersText, type Reach, targetFor } from "../document/layers";
import type { Step } from "../document/planDocument";
import type { Place, Placed } from "../document/training";
import { formatBytes } from "../document/units";
import { presetTitle } from "./edits";

function step(field: string, label: string, changes: Change[], reach?: Reach): Step {
  return { changes, label, field, layer: reach?.kind === "range" ? reach.first : null };
}

/** Bytes of a bucket to begin with when it is filled to a size. */
export const FIRST_BUCKET_BYTES = 64 << 20;

/** How gradients are put into buckets; what belongs to another way is let go. */
export function fuse(now: Gradients, fusion: Gradients["fusion"]): Step {
  const bucket_bytes = fusion === "size" ? now.bucket_bytes || FIRST_BUCKET_BYTES : 0;
  const indices = fusion === "index" ? (now.indices.length > 0 ? now.indices : [1]) : [];
  return changeGradients(now, { fusion, bucket_bytes, indices });
}

export function changeGradients(now: Gradients, part: Partial<Gradients>): Step {
  const gradients = { ...now, ...part };
  return step("gradients", gradientsLabel(gradients, part), [{ type: "gradients", ...gradients }]);
}

function gradientsLabel(all: Gradients, part: Partial<Gradients>): string {
  const { fusion, bucket_bytes, indices, overlap, reduction, compression } = part;
  if (overlap !== undefined) {
    return overlap ? "reduce gradients beside backward" : "wait for each reduction of gradients";
  }
  if (reduction) return `${reduction} of gradients`;
  if (compression)
    return compression === "none" ? "gradients as they are" : `gradients as ${compression}`;
  if (bucket_bytes || fusion === "size")
    return `gradients in buckets of ${formatBytes(all.bucket_bytes)}`;
  if (indices?.length) return `buckets of gradients from ${indices.join(", ")}`;
  return fusion === "none" ? "each gradient by itself" : "gradients in buckets";
}

/** Put parameters or optimizer state somewhere; what `target` does not name stays. */
export function place(
  target: string,
  of: Placed,
  where: Place,
  reach: Reach = { kind: "all" },
): Step {
  const what = of === "storage" ? "parameters" : "optimizer state";
  const whose = target === "*" ? "" : ` of ${shortName(target)}`;
  const change: Change = {
    type: "parameter",
    target: targetFor(target, reach),
    of,
    axes: [],
    layout: null,
    regather: false,
    deferred: false,
    place: where,
  };
  return step(
    `place:${target}`,
    `${what}${whose} on the ${where}${layersText(reach)}`,
    [change],
    reach,
  );
}

function shortName(target: string): string {
  return target.split(".").slice(-2).join(".");
}

/**
 * Keep of a module or operator only what goes in, and compute the rest again in backward; or no longer. Where a decision
 * on the same target says the opposite, taking that back is enough.
 */
export function recompute(
  plan: PlanState,
  path: string,
  again: boolean,
  reach: Reach = { kind: "all" },
): Step {
  const target = targetFor(path, reach);
  const label = again ? `compute ${target} again in backward` : `keep what ${target} makes`;
  const own = plan.decisions.findLast(
    (decision) => decision.type === "recompute" && decision.target === target,
  );
  const taken = own?.type === "recompute" && !own.again && again;
  const change: Change = { type: "recompute", target, again: taken ? null : again };
  return step("recompute", label, [change], reach);
}

/** Compute again what a preset names and nothing else; with no preset, nothing. */
export function recomputeAll(plan: PlanState, preset: PresetEntry | null): Step {
  const gone = plan.decisions.flatMap((decision): Change[] =>
    decision.type === "recompute"
      ? [{ type: "recompute", target: decision.target, again: null }]
      : [],
  );
  const added: Change[] = preset ? [{ type: "preset", name: preset.name, axes: {} }] : [];
  return step("recompute-all", preset ? presetTitle(preset.name) : "compute nothing again", [
    ...gone,
    ...added,
  ]);
}
