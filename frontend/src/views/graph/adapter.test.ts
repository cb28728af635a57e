import { describe, expect, it } from "vitest";
import { fromPlanView } from "./adapter";
import runs from "./fixtures/llama-8b-runs.json";
import large from "./fixtures/llama-405b.json";
import { carryOpen, defaultOpen } from "./groups";
import { Lifting } from "./layout/lift";
import { at, ItemKind } from "./layout/types";
import { find, type GraphModel } from "./model";
import { makeStudio } from "./studio";

const LAYER = "model.layers.0-125:model.layers.*";
const model = fromPlanView(large);
const cut = fromPlanView(runs);

function box(of: GraphModel, id: string) {
  return of.boxes[of.boxOf.get(id) ?? -1];
}
function tensor(of: GraphModel, id: string) {
  const found = of.tensors.find((t) => t.id === id);
  if (!found) throw new Error(`no tensor ${id}`);
  return found;
}

describe("boxes", () => {
  it("are the operators, the inputs and the values carried from layer to layer", () => {
    expect(model.boxes.filter((b) => b.kind === "op")).toHaveLength(large.nodes.length);
    expect(model.boxes.filter((b) => b.kind === "input").map((b) => b.title)).toEqual([
      "tokens",
      "labels",
    ]);
    expect(model.boxes.filter((b) => b.kind === "carry").map((b) => b.title)).toEqual(["hidden"]);
  });

  it("hold their parameters as rows, as they are stored, with gathers and gradient reductions", () => {
    const [row] = box(model, `${LAYER}.self_attn.q_proj`)?.parameters ?? [];
    expect(row?.layout).toBe("[tp0·tp1·dp, -]");
    expect(row?.cells.map((cell) => cell.factors[0])).toEqual(["n", "k"]);
    expect(row?.steps.forward.map((s) => s.kind)).toEqual(["all_gather"]);
    expect(row?.steps.backward.map((s) => s.kind)).toEqual(["all_gather", "reduce_scatter"]);
    expect(model.tensors.some((t) => t.id.endsWith("q_proj.weight"))).toBe(false);
  });
});

describe("gradients that share their collectives", () => {
  const layers = large.nodes.find((node) => node.id === `${LAYER}.self_attn.q_proj`)?.layers ?? 0;
  const inBuckets = {
    ...large,
    edges: large.edges.map((edge) => ({
      ...edge,
      place: edge.kind === "parameter" ? "host" : "",
      badges: edge.badges.map((badge) =>
        badge.kind === "reduce_scatter" && edge.kind === "parameter"
          ? { ...badge, buckets: [1] }
          : badge,
      ),
    })),
    nodes: large.nodes.map((node) => ({ ...node, recomputed: true })),
    buckets: [
      { gradients: 1, count: 1, nbytes: 8, seconds: 1, collectives: 1, runs: 1 },
      { gradients: 9, count: layers, nbytes: 3 << 20, seconds: 2e-3, collectives: 1, runs: layers },
    ],
  };
  const fused = fromPlanView(inBuckets);

  it("are told in the row of the parameter, with what lies on the host and is computed again", () => {
    const projection = box(fused, `${LAYER}.self_attn.q_proj`);
    expect(projection?.parameters[0]).toMatchObject({
      name: "weight (host)",
      bucket: `bucket 2–${layers + 1} · 3 MiB`,
    });
    expect(projection?.subtitle).toBe("linear · recomputed");
    expect(box(model, `${LAYER}.self_attn.q_proj`)?.parameters[0]?.bucket).toBe("");
  });

  it("count once among the collectives of what is around them", () => {
    const reductions = (of: GraphModel, id: string) =>
      of.groups[find(of, id)?.index ?? -1]?.tally.backward ?? { collectives: 0, bytes: 0 };
    const attention = `${LAYER}.self_attn`;
    const [own, shared] = [reductions(model, attention), reductions(fused, attention)];
    // Of q, k, v and o there is one left, in each layer.
    expect(shared.collectives).toBeCloseTo(own.collectives - 3);
    expect(shared.bytes).toBeCloseTo(own.bytes);
    const [all, once] = [reductions(model, LAYER), reductions(fused, LAYER)];
    expect(once.collectives).toBeLessThan(all.collectives - 3 * layers);
  });
});

describe("groups", () => {
  it("draw a list with one run of layers as one box, found by both ids", () => {
    const run = find(model, LAYER);
    expect(find(model, ":model.layers")).toEqual(run);
    expect(model.groups[run?.index ?? -1]).toMatchObject({
      kind: "run",
      title: "layers",
      layers: 126,
    });
  });

  it("keep runs apart where layers differ", () => {
    const titles = cut.groups.filter((g) => g.kind === "run").map((g) => [g.title, g.layers]);
    expect(titles).toEqual([
      ["0–11", 12],
      ["12", 1],
      ["13–31", 19],
    ]);
  });

  it("count what is inside: a run all its layers, a module one of them", () => {
    const run = model.groups[model.groupOf.get(LAYER) ?? -1];
    const attention = model.groups[model.groupOf.get(`${LAYER}.self_attn`) ?? -1];
    const mlp = model.groups[model.groupOf.get(`${LAYER}.mlp`) ?? -1];
    expect(attention?.tally.forward.collectives).toBe(4);
    expect(mlp?.tally.forward.collectives).toBe(3);
    // Nine gathers of parameters, and four of activations.
    expect(run?.tally.forward.collectives).toBe(13 * 126);
    expect(run?.operators).toBe(19);
  });

  it("are open down to the folded layers at first sight", () => {
    const open = defaultOpen(model);
    expect(open.has(":model")).toBe(true);
    expect(open.has(LAYER)).toBe(false);
    expect(open.has(`${LAYER}.self_attn`)).toBe(true);
    expect(open.has(":loss#parts")).toBe(false);
  });

  it("keep a single layer beside runs folded too", () => {
    const [run] = runs.groups.filter((group) => group.path === "model.layers.*");
    if (!run) throw new Error("no run");
    const single = { ...run, id: ":model.layers.32", path: "model.layers.32", total: 0 };
    const groups = [...runs.groups, { ...single, layers: 1, start: 0 }];
    const open = defaultOpen(fromPlanView({ ...runs, groups }));
    expect(open.has(":model.layers")).toBe(true);
    expect(open.has(single.id)).toBe(false);
  });

  it("open from the outside in, as far as there is room", () => {
    const open = defaultOpen(model, 12);
    expect(open.has(":model")).toBe(true);
    expect(open.has(`${LAYER}.self_attn`)).toBe(false);
  });

  it("stay open through an edit that cuts a run, at the layer that differs", () => {
    const before = fromPlanView({ ...runs, groups: renamed(), nodes: [], edges: [] });
    const open = carryOpen(before, cut, new Set(["model.layers.0-31:model.layers.*"]));
    expect([...open]).toEqual([":model.layers", "model.layers.12:model.layers.*"]);
  });

  function renamed() {
    const name = (id: string) => id.replace(/^model\.layers\.0-11:/, "model.layers.0-31:");
    return runs.groups
      .filter((g) => !/^model\.layers\.1[23]/.test(g.id))
      .map((g) => ({ ...g, id: name(g.id), parent: name(g.parent) }));
  }
});

describe("tensors", () => {
  it("enter a run at its carried value, unless the reader names them itself", () => {
    const hidden = model.boxOf.get(`port:model.layers.0-125:hidden`);
    expect(tensor(model, ":model.embed_tokens").readers).toEqual([hidden]);
    const rotary = tensor(model, ":model.rotary_emb").readers.map(
      (reader) => model.boxes[reader]?.title,
    );
    expect(rotary).toEqual(["rotary_q", "rotary_k"]);
  });

  it("pass from run to run", () => {
    const next = tensor(cut, ":model.layers@12");
    expect(cut.boxes[next.producer]?.id).toBe("model.layers.0-11:model.layers.*/residual_mlp");
    expect(next.readers.map((r) => cut.boxes[r]?.id)).toEqual(["port:model.layers.12:hidden"]);
  });

  it("are one line when they run side by side without collectives", () => {
    const rotary = model.tensors.filter((t) => t.id.startsWith(":model.rotary_emb"));
    expect(rotary).toHaveLength(1);
  });
});

describe("deliveries", () => {
  it("hold one badge for all readers that want the same layout", () => {
    const norm = tensor(model, `${LAYER}.input_layernorm`);
    const [delivery, ...others] = norm.deliveries.forward.map((d) => model.deliveries[d]);
    expect(others).toEqual([]);
    expect(delivery?.readers).toHaveLength(3);
    expect(delivery?.steps.map((s) => s.kind)).toEqual(["all_gather"]);
  });

  it("hold one badge for each layout, with its steps in order", () => {
    const norm = tensor(model, `${LAYER}.input_layernorm`);
    const steps = norm.deliveries.backward.map((d) =>
      model.deliveries[d]?.steps.map((s) => s.kind),
    );
    expect(steps).toEqual([["reduce_scatter"], ["slice", "reduce_scatter", "all_to_all"]]);
  });
});

describe("lifting", () => {
  const measure = (_: string, text: string) => text.length * 6;
  const { skeleton } = makeStudio(model, "forward", measure);
  const levels = (open: (id: string) => boolean) =>
    new Lifting(
      skeleton,
      model.groups.map((group) => open(group.id)),
    ).levels;

  it("leaves out what is inside a closed group, and joins its lines to the group", () => {
    const [top] = levels(() => false);
    const shown = top?.kinds.flatMap((kind, item) =>
      kind === ItemKind.Box
        ? [
            top.groups[item]
              ? model.groups[at(top.refs, item)]?.title
              : model.boxes[at(top.refs, item)]?.title,
          ]
        : [],
    );
    expect(shown).toEqual(["tokens", "labels", "model", "lm_head", "loss"]);
    expect(top?.links).toHaveLength(5);
  });

  it("gives a tensor one port in a frame, however many read it there", () => {
    const all = levels(() => true);
    const attention = all[(model.groupOf.get(`${LAYER}.self_attn`) ?? -1) + 1];
    // What the norm made, once for three readers; and the rotary table.
    expect(attention?.entries).toBe(2);
    expect(attention?.exits).toBe(1);
  });

  it("puts a badge in the innermost frame around its ends", () => {
    const all = levels(() => true);
    const layer = all[(model.groupOf.get(LAYER) ?? -1) + 1];
    const badges = layer?.kinds.filter((kind) => kind === ItemKind.Badge);
    expect(badges).toHaveLength(4);
  });
});
