/** What the canvas shows, in words: for screen readers and for tooltips. */

import { lastOf } from "./art";
import {
  cellLetter,
  formatBytes,
  formatCount,
  formatSeconds,
  kindName,
  partialMark,
  plural,
} from "./format";
import { at, ShapeKind } from "./layout/types";
import type { BadgeView, GraphBox, GraphGroup, ParameterRow } from "./model";
import { neighbours } from "./navigate";
import type { Hit, Scene } from "./scene";

export function describeShape(scene: Scene, shape: number): string {
  if (shape < 0) return "Nothing selected.";
  const { kind, ref } = scene.geometry;
  const { model, direction } = scene.studio;
  const index = at(ref, shape);
  const { producers, readers } = neighbours(scene);
  const around = `${plural(producers.get(shape)?.length ?? 0, "producer")}, ${plural(readers.get(shape)?.length ?? 0, "reader")}.`;
  if (kind[shape] === ShapeKind.Box) {
    const box = model.boxes[index];
    if (!box) return "";
    const rows = box.parameters.map((row) => describeRow(row, direction));
    const badges = model.tensors
      .filter((tensor) => tensor.producer === index)
      .flatMap((tensor) => tensor.deliveries[direction])
      .flatMap((delivery) => model.deliveries[delivery]?.steps ?? []);
    return [describeBox(box), ...rows, ...badges.map(describeStep), around].join(" ");
  }
  const group = model.groups[index];
  if (!group) return "";
  const state = kind[shape] === ShapeKind.Frame ? "open" : "closed";
  return `${describeGroup(group)}, ${state}. ${describeTally(group, direction)} ${around}`;
}

function describeBox(box: GraphBox): string {
  const dims = box.cells.map((cell) => {
    const by = cell.axes.length ? `over ${cell.axes.join(" and ")}` : "whole";
    return `${cellLetter(cell)} ${by}`;
  });
  const partial = partialMark(box.reduce, box.partial);
  const parts = [`${box.title}, ${box.subtitle}.`];
  if (dims.length) parts.push(`${dims.join(", ")}.`);
  if (partial) parts.push(`Partial: ${partial}.`);
  return parts.join(" ");
}

function describeRow(row: ParameterRow, direction: "forward" | "backward"): string {
  const marks = row.steps[direction].map((step) => ` ${describeStep(step)}`).join("");
  const together = direction === "backward" && row.bucket ? ` In ${row.bucket}.` : "";
  return `Parameter ${row.name} ${row.layout}.${marks}${together}`;
}

function describeStep(step: BadgeView): string {
  const over = step.axes.length ? ` over ${step.axes.join(" and ")}` : "";
  return `${kindName(step.kind)}${over}, ${formatBytes(step.payload_bytes)}, ${formatSeconds(step.seconds)}.`;
}

function describeGroup(group: GraphGroup): string {
  const last = lastOf(group);
  if (group.kind !== "run") return `${group.title}, ${plural(group.operators, "op")}`;
  const every = group.step > 1 ? ` by ${group.step}` : "";
  const layers =
    group.layers > 1 ? `layers ${group.start} to ${last}${every}` : `layer ${group.start}`;
  return `${group.title}, ${layers}, ${plural(group.operators, "op")} each`;
}

function describeTally(group: GraphGroup, direction: "forward" | "backward"): string {
  const { collectives, bytes, seconds } = group.tally[direction];
  if (!collectives) return `No ${direction} collectives.`;
  return `${plural(Math.round(collectives), `${direction} collective`)}, ${formatBytes(bytes)}, ${formatSeconds(seconds)}.`;
}

/** Return the lines of a tooltip; none where the canvas already says all. */
export function tipLines(scene: Scene, hit: Hit): string[] {
  const { model, direction } = scene.studio;
  if (hit.kind === "badge") {
    const delivery = model.deliveries[at(scene.geometry.ref, hit.shape)];
    const step = delivery?.steps[hit.step];
    if (!delivery || !step) return [];
    const tensor = model.tensors[delivery.tensor]?.label ?? "";
    return [...stepLines(step), `${tensor} → ${plural(delivery.readers.length, "reader")}`];
  }
  if (hit.kind === "box") {
    const box = model.boxes[at(scene.geometry.ref, hit.shape)];
    const row = box?.parameters[hit.row];
    if (!row) return [];
    const together = direction === "backward" && row.bucket ? [`together in ${row.bucket}`] : [];
    return [`${row.value} ${row.layout}`, ...row.steps[direction].flatMap(stepLines), ...together];
  }
  return [];
}

function stepLines(step: BadgeView): string[] {
  return [
    `${kindName(step.kind)} over ${step.axes.join("·")} (${step.group_size} ranks), ${step.phase}`,
    `${step.source} → ${step.target}`,
    `${formatBytes(step.payload_bytes)}, ${formatBytes(step.wire_bytes)} on the wire, ${formatSeconds(step.seconds)}, ${formatCount(step.count)} × a step`,
  ];
}
