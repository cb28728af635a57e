// Ready plans of the models that come along; each is one click.
import type { NewPlan } from "../../api/types";

export interface Example {
  title: string;
  text: string;
  plan: NewPlan;
}

const H100 = "h100-sxm";

const preset = (name: string, axis: string) => ({ name, axes: { axis: [axis] } });

export const EXAMPLES: Example[] = [
  {
    title: "Llama-3 8B on 8 × H100, Megatron",
    text: "One node. Heads, feed-forward width and vocabulary over tp, the batch over dp.",
    plan: {
      name: "Llama-3 8B, Megatron",
      model: "llama-3-8b",
      cluster: `1x8-${H100}`,
      mesh: [
        { name: "dp", size: 2 },
        { name: "tp", size: 4 },
      ],
      global_batch: 32,
      seq: 4096,
      microbatches: 4,
      precision: "bf16",
      presets: [
        preset("data_parallel", "dp"),
        preset("megatron", "tp"),
        preset("sequence_parallel", "tp"),
      ],
    },
  },
  {
    title: "Llama-3 8B on 8 × H100, ZeRO-3",
    text: "The same node with parameters, gradients and optimizer state sharded instead.",
    plan: {
      name: "Llama-3 8B, ZeRO-3",
      model: "llama-3-8b",
      cluster: `1x8-${H100}`,
      mesh: [{ name: "dp", size: 8 }],
      global_batch: 16,
      seq: 8192,
      microbatches: 2,
      precision: "bf16",
      presets: [preset("zero3", "dp")],
    },
  },
  {
    title: "Llama-3 70B on 8 × 8 H100",
    text: "ZeRO-3 between the nodes, tensor and sequence parallel inside them.",
    plan: {
      name: "Llama-3 70B, ZeRO-3 × tensor",
      model: "llama-3-70b",
      cluster: `8x8-${H100}`,
      mesh: [
        { name: "dp", size: 8 },
        { name: "tp", size: 8 },
      ],
      global_batch: 64,
      seq: 8192,
      microbatches: 8,
      precision: "bf16",
      presets: [preset("zero3", "dp"), preset("megatron", "tp"), preset("sequence_parallel", "tp")],
    },
  },
  {
    title: "Llama-3.1 405B on 2048 × 8 H100",
    text: "16,384 devices: ZeRO-3 × tensor × sequence. It opens folded, 126 layers as one.",
    plan: {
      name: "Llama-3.1 405B, ZeRO-3 × tensor × sequence",
      model: "llama-3.1-405b",
      cluster: `2048x8-${H100}`,
      mesh: [
        { name: "dp", size: 2048 },
        { name: "tp", size: 8 },
      ],
      global_batch: 2048,
      seq: 4096,
      microbatches: 1,
      precision: "bf16",
      presets: [preset("zero3", "dp"), preset("megatron", "tp"), preset("sequence_parallel", "tp")],
    },
  },
  {
    title: "Qwen3 8B on 8 × H100, nothing decided",
    text: "An unsharded plan on one axis, to start from scratch.",
    plan: {
      name: "Qwen3 8B, from scratch",
      model: "qwen3-8b",
      cluster: `1x8-${H100}`,
      mesh: [{ name: "tp", size: 8 }],
      global_batch: 8,
      seq: 4096,
      microbatches: 8,
      precision: "bf16",
      presets: [],
    },
  },
  {
    title: "Llama tiny on 4 × A100",
    text: "Four small layers: quick to read, export and prove.",
    plan: {
      name: "Llama tiny",
      model: "llama-tiny",
      cluster: "1x4-a100-80-sxm",
      mesh: [
        { name: "dp", size: 2 },
        { name: "tp", size: 2 },
      ],
      global_batch: 8,
      seq: 64,
      microbatches: 1,
      precision: "bf16",
      presets: [preset("data_parallel", "dp"), preset("megatron", "tp")],
    },
  },
];
