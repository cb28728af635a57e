import { describe, expect, it } from "vitest";
import { plan } from "../document/fixtures";
import { changeGradients, fuse, place, recompute, recomputeAll } from "./training";

const { gradients } = plan(1);

describe("gradients", () => {
  it("keep what is not changed", () => {
    const step = changeGradients({ ...gradients, fusion: "auto" }, { overlap: true });
    expect(step.changes).toEqual([
      { type: "gradients", ...gradients, fusion: "auto", overlap: true },
    ]);
    expect(step).toMatchObject({ field: "gradients", label: "reduce gradients beside backward" });
  });

  it("get what their fusion needs, and lose what belongs to another", () => {
    const sized = fuse(gradients, "size").changes[0];
    expect(sized).toMatchObject({ fusion: "size", bucket_bytes: 64 << 20, indices: [] });
    const cut = fuse({ ...gradients, fusion: "size", bucket_bytes: 8 }, "index").changes[0];
    expect(cut).toMatchObject({ fusion: "index", bucket_bytes: 0, indices: [1] });
    const none = fuse({ ...gradients, fusion: "index", indices: [3] }, "none").changes[0];
    expect(none).toMatchObject({ fusion: "none", bucket_bytes: 0, indices: [] });
  });

  it.each([
    [fuse(gradients, "auto"), "gradients in buckets"],
    [fuse(gradients, "none"), "each gradient by itself"],
    [fuse(gradients, "size"), "gradients in buckets of 64.0 MiB"],
    [fuse(gradients, "index"), "buckets of gradients from 1"],
    [changeGradients(gradients, { compression: "int8" }), "gradients as int8"],
    [changeGradients(gradients, { compression: "none" }), "gradients as they are"],
    [changeGradients(gradients, { reduction: "sum" }), "sum of gradients"],
    [changeGradients(gradients, { overlap: false }), "wait for each reduction of gradients"],
  ])("are labelled %#", (step, label) => expect(step.label).toBe(label));
});

describe("places", () => {
  it("are of all, or of one parameter in some layers", () => {
    const all = place("*", "optimizer", "host");
    expect(all.changes[0]).toMatchObject({ target: "*", of: "optimizer", place: "host", axes: [] });
    expect(all).toMatchObject({ label: "optimizer state on the host", field: "place:*" });
    const some = place("layers.*.a.weight", "storage", "host", {
      kind: "range",
      first: 2,
      last: 3,
    });
    expect(some.changes[0]).toMatchObject({ target: "layers.2-3.a.weight", of: "storage" });
    expect(some).toMatchObject({
      label: "parameters of a.weight on the host, layers 2–3",
      field: "place:layers.*.a.weight",
      layer: 2,
    });
  });
});

describe("recomputation", () => {
  const decided = plan(1, {
    decisions: [
      { type: "recompute", target: "layers.*", again: true },
      { type: "recompute", target: "mlp", again: false },
    ],
  });

  it("is of a module, in some layers", () => {
    const step = recompute(decided, "layers.*.attn", true, { kind: "range", first: 1, last: 1 });
    expect(step.changes).toEqual([{ type: "recompute", target: "layers.1.attn", again: true }]);
    expect(step.layer).toBe(1);
    expect(recompute(decided, "layers.*", false).changes[0]).toMatchObject({ again: false });
  });

  it("comes back where what took it out is forgotten", () => {
    expect(recompute(decided, "mlp", true).changes).toEqual([
      { type: "recompute", target: "mlp", again: null },
    ]);
  });

  it("is that of a preset and nothing else", () => {
    const preset = { name: "recompute_full", summary: "", axes: [], recompute: ["h.*"] };
    const forgotten = [
      { type: "recompute", target: "layers.*", again: null },
      { type: "recompute", target: "mlp", again: null },
    ];
    expect(recomputeAll(decided, preset)).toMatchObject({
      changes: [...forgotten, { type: "preset", name: "recompute_full", axes: {} }],
      label: "Recompute layers",
    });
    expect(recomputeAll(decided, null)).toMatchObject({
      changes: forgotten,
      label: "compute nothing again",
    });
  });
});
