/** A made-up model of any size, for measuring: unrolled layers with the modules of a transformer. */

import type {
  BadgeView,
  CellView,
  EdgeView,
  GroupView,
  NodeView,
  PlanView,
  TensorView,
} from "../model";

interface Step {
  readonly name: string;
  readonly op: string;
  readonly module: string;
  readonly reads: readonly string[];
  readonly collective?: string;
}

const LAYER: readonly Step[] = (() => {
  const steps: Step[] = [];
  const add = (module: string, name: string, op: string, reads: string[], collective?: string) =>
    steps.push({ name, op, module, reads, ...(collective ? { collective } : {}) });
  const norm = (module: string, source: string) => {
    add(module, `${module}_square`, "square", [source]);
    add(module, `${module}_mean`, "mean", [`${module}_square`]);
    add(module, `${module}_rsqrt`, "rsqrt", [`${module}_mean`]);
    add(module, `${module}_scale`, "multiply", [source, `${module}_rsqrt`]);
    add(module, `${module}_weight`, "multiply", [`${module}_scale`], "all_gather");
  };
  norm("input_norm", "");
  for (const letter of ["q", "k", "v"])
    add("attn", `${letter}_proj`, "linear", ["input_norm_weight"]);
  for (const letter of ["q", "k", "v"])
    add("attn", `split_${letter}`, "split_heads", [`${letter}_proj`]);
  for (const letter of ["q", "k"]) {
    add("rotary", `half_${letter}`, "rotate_half", [`split_${letter}`]);
    add("rotary", `cos_${letter}`, "multiply", [`split_${letter}`]);
    add("rotary", `sin_${letter}`, "multiply", [`half_${letter}`]);
    add("rotary", `turn_${letter}`, "add", [`cos_${letter}`, `sin_${letter}`]);
  }
  add("core", "scores", "matmul", ["turn_q", "turn_k"]);
  add("core", "scale", "divide", ["scores"]);
  add("core", "mask", "add", ["scale"]);
  add("core", "softmax", "softmax", ["mask"]);
  add("core", "weigh", "matmul", ["softmax", "split_v"]);
  add("attn", "merge", "merge_heads", ["weigh"]);
  add("attn", "o_proj", "linear", ["merge"], "reduce_scatter");
  add("", "residual_1", "add", ["", "o_proj"]);
  norm("post_norm", "residual_1");
  add("mlp", "gate", "linear", ["post_norm_weight"]);
  add("mlp", "up", "linear", ["post_norm_weight"]);
  add("mlp", "silu", "silu", ["gate"]);
  add("mlp", "mul", "multiply", ["silu", "up"]);
  add("mlp", "down", "linear", ["mul"], "reduce_scatter");
  add("", "residual_2", "add", ["residual_1", "down"]);
  return steps;
})();
const NESTED: Record<string, string> = { rotary: "attn", core: "attn" };

function cell(name: string, size: string, axes: readonly string[]): CellView {
  return { factors: [name], size, total: 4096, local: 512, axes };
}

function tensor(value: string, partial: readonly string[]): TensorView {
  const cells = [
    cell("batch", "B", ["dp"]),
    cell("seq", "S", []),
    cell("h", "4096", partial.length ? [] : ["tp"]),
  ];
  return {
    slot: "result",
    value,
    layout: "[dp, -, tp]",
    cells,
    partial,
    reduce: "sum",
    parameter: false,
  };
}

function badge(kind: string, readers: readonly string[]): BadgeView {
  return {
    phase: "forward",
    kind,
    axes: ["tp"],
    group_size: 8,
    payload_bytes: 8 << 20,
    wire_bytes: 7 << 20,
    seconds: 1.3e-4,
    count: 1,
    source: "[dp, tp, -]",
    target: "[dp, -, -]",
    readers,
  };
}

export function syntheticView(layers: number): PlanView {
  const groups: GroupView[] = [];
  const nodes: NodeView[] = [];
  const readersOf = new Map<string, string[]>();
  const collectiveOf = new Map<string, string>();
  const group = (id: string, label: string, parent: string) =>
    groups.push({ id, path: id, label, class_name: "", parent, layers: 1 });
  const node = (
    id: string,
    label: string,
    op: string,
    inside: string,
    reads: readonly string[],
    partial = false,
  ) => {
    const result = tensor(id, partial ? ["tp"] : []);
    nodes.push({
      id,
      name: id,
      label,
      op,
      group: inside,
      scope: "",
      layers: 1,
      operands: [],
      results: [result],
    });
    for (const source of reads) readersOf.set(source, [...(readersOf.get(source) ?? []), id]);
  };

  node("embed", "embed", "embedding", "", []);
  group("layers", "layers", "");
  let hidden = "embed";
  for (let layer = 0; layer < layers; layer += 1) {
    const base = `layers.${layer}`;
    group(base, String(layer), "layers");
    for (const module of ["input_norm", "attn", "rotary", "core", "post_norm", "mlp"]) {
      const parent = NESTED[module];
      group(`${base}.${module}`, module, parent ? `${base}.${parent}` : base);
    }
    for (const step of LAYER) {
      const id = `${base}.${step.name}`;
      const reads = step.reads.map((name) => (name ? `${base}.${name}` : hidden));
      node(
        id,
        step.name,
        step.op,
        step.module ? `${base}.${step.module}` : base,
        reads,
        step.collective === "reduce_scatter",
      );
      if (step.collective) collectiveOf.set(id, step.collective);
    }
    hidden = `${base}.residual_2`;
  }
  node("norm", "norm", "rms_norm", "", [hidden]);
  node("head", "head", "linear", "", ["norm"]);

  const edges: EdgeView[] = nodes.map(({ id, results }) => {
    const readers = readersOf.get(id) ?? [];
    const kind = collectiveOf.get(id);
    const badges = kind && readers.length ? [badge(kind, readers)] : [];
    const [made = tensor(id, [])] = results;
    return {
      id,
      value: id,
      label: id,
      kind: "activation",
      producer: id,
      readers,
      tensor: made,
      badges,
    };
  });
  return { model: `synthetic-${layers}`, groups, nodes, edges };
}
