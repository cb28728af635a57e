// Small plans for tests, in the shapes that the API answers.
import type { FactorView, NodeView, PlanState, PlanView, Summary, TensorView } from "../api/types";

export function tensor(slot: string, cells: [string, string[]][]): TensorView {
  return {
    slot,
    value: slot,
    dtype: "bfloat16",
    layout: "",
    cells: cells.map(([factor, axes]) => ({
      factors: [factor],
      size: "8",
      total: 8,
      local: 8,
      least: 8,
      axes,
    })),
    partial: [],
    reduce: "sum",
    local_bytes: 16,
    parameter: false,
  };
}

export function factor(name: string, axes: string[], pinned = false): FactorView {
  return { name, size: 8, role: "pass-through", reason: "", axes, pinned, pins: [], touches: [] };
}

export function node(name: string, group: string, more: Partial<NodeView> = {}): NodeView {
  return {
    id: `run:${name}`,
    name,
    label: name.split(".").at(-1) ?? name,
    op: "linear",
    summary: "y = x·weight",
    target: name,
    group,
    scope: "run",
    layers: 4,
    rule: "batch k, n k -> batch n",
    terms: "x·weight",
    operands: [
      tensor("x", [
        ["batch", []],
        ["k", []],
      ]),
    ],
    results: [
      tensor("result", [
        ["batch", []],
        ["n", []],
      ]),
    ],
    factors: [factor("batch", []), factor("k", []), factor("n", [])],
    forward_s: 1e-3,
    backward_s: 2e-3,
    recomputed: false,
    ...more,
  };
}

export function view(): PlanView {
  const a = node("layers.*.a", "run:layers.*");
  const b = node("layers.*.b", "run:layers.*");
  return {
    model: "tiny",
    mesh: [
      ["dp", 2],
      ["tp", 4],
    ],
    groups: [
      {
        id: ":layers",
        path: "layers",
        label: "layers",
        class_name: "ModuleList",
        parent: "",
        layers: 1,
        start: 0,
        total: 0,
        step: 1,
      },
      {
        id: "run:layers.*",
        path: "layers.*",
        label: "0–3",
        class_name: "Layer",
        parent: ":layers",
        layers: 4,
        start: 0,
        total: 4,
        step: 1,
      },
    ],
    nodes: [a, b, node("head", "", { id: ":head", layers: 1 })],
    edges: [
      {
        id: "run:a",
        value: "a",
        label: "a",
        kind: "activation",
        producer: a.id,
        readers: [b.id],
        tensor: tensor("", []),
        gradient: "",
        badges: [],
        regather: false,
        optimizer: "",
        deferred: false,
        place: "",
        optimizer_place: "",
      },
    ],
    buckets: [],
  };
}

export function summary(step: number): Summary {
  return {
    step_time_s: step,
    interval_s: [step, step],
    compute_s: step,
    communication_s: 0,
    optimizer_s: 0,
    bubble_s: 0,
    memory_bytes: 1,
    capacity_bytes: 2,
    memory_parts: [],
    mfu: 0.5,
    samples_per_second: 1,
    tokens_per_second: 1,
    flops: 1,
    collectives: 0,
    diagnostics: [],
    evaluated_ms: 1,
  };
}

export function plan(version: number, more: Partial<PlanState> = {}): PlanState {
  return {
    id: "p1",
    name: "plan",
    version,
    undo: null,
    redo: null,
    cluster: "1x8-h100-sxm",
    global_batch: 8,
    seq: 16,
    microbatches: 1,
    precision: "bf16",
    gradients: {
      fusion: "none",
      bucket_bytes: 0,
      indices: [],
      reduction: "mean",
      overlap: false,
      compression: "none",
    },
    model: { id: "tiny", name: "tiny" },
    decisions: [],
    pipeline: null,
    view: view(),
    summary: summary(version),
    ...more,
  };
}
