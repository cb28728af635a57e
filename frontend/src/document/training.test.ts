import { describe, expect, it } from "vitest";
import type { Badge, BucketView, Change, EdgeView, ParameterDecision } from "../api/types";
import { node, plan, tensor, view } from "./fixtures";
import {
  bucketTotals,
  collectivesOf,
  gradientsNow,
  parameterText,
  placeNow,
  precisionNow,
  readPositions,
  recomputedNow,
  recomputeMode,
} from "./training";

function parameter(name: string, more: Partial<EdgeView> = {}): EdgeView {
  return {
    id: `run:${name}`,
    value: name,
    label: name,
    kind: "parameter",
    producer: "",
    readers: ["run:layers.*.a"],
    tensor: tensor("", []),
    gradient: "",
    badges: [],
    regather: false,
    optimizer: "",
    deferred: false,
    place: "device",
    optimizer_place: "device",
    ...more,
  };
}

function badge(count: number, buckets: number[]): Badge {
  return {
    phase: "backward",
    kind: "all_reduce",
    axes: ["dp"],
    group_size: 2,
    payload_bytes: 8,
    wire_bytes: 8,
    seconds: 1,
    count,
    source: "[-] +dp",
    target: "[-]",
    readers: ["run:layers.*.a"],
    buckets,
  };
}

const bucket: BucketView = {
  edges: ["run:w", "run:b"],
  gradients: 2,
  layers: 1,
  count: 4,
  nbytes: 16,
  seconds: 1,
  collectives: 1,
  runs: 8,
  calls: [["all_reduce", ["dp"]]],
  deferred: false,
};

describe("what waits for an answer", () => {
  it("is shown of gradients, the last one", () => {
    const waiting: Change[] = [
      { type: "gradients", ...plan(1).gradients, fusion: "auto" },
      { type: "gradients", ...plan(1).gradients, fusion: "auto", overlap: true },
    ];
    expect(gradientsNow(plan(1), waiting)).toMatchObject({ fusion: "auto", overlap: true });
    expect(gradientsNow(plan(1), [])).toEqual(plan(1).gradients);
    expect(gradientsNow(plan(1), waiting)).not.toHaveProperty("type");
  });

  it("is shown of the precision", () => {
    expect(precisionNow(plan(1), [])).toBe("bf16");
    expect(precisionNow(plan(1), [{ type: "precision", name: "fp32" }])).toBe("fp32");
  });

  it("is shown of a place, for the very target", () => {
    const whole = { ...view(), edges: [parameter("w")] };
    const waits = (target: string): Change[] => [
      {
        type: "parameter",
        target,
        of: "optimizer",
        axes: [],
        regather: false,
        deferred: false,
        place: "host",
      },
    ];
    expect(placeNow(whole, waits("*"), "optimizer")).toBe("host");
    expect(placeNow(whole, waits("*"), "storage")).toBe("device");
    expect(placeNow(whole, waits("w"), "optimizer")).toBe("device");
  });

  it("is shown of recomputation", () => {
    const nodes = [node("a", "", { recomputed: true })];
    expect(recomputedNow(nodes, [{ type: "recompute", target: "a", again: false }], "a")).toBe(
      false,
    );
    expect(recomputedNow(nodes, [{ type: "recompute", target: "b", again: false }], "a")).toBe(
      true,
    );
    // What is left when a decision is taken back, the server says.
    expect(recomputedNow(nodes, [{ type: "recompute", target: "a", again: null }], "a")).toBe(true);
  });
});

describe("what several have in common", () => {
  it("is a place, or that they differ", () => {
    const edges = [parameter("w", { place: "host" }), parameter("b")];
    expect(placeNow({ ...view(), edges }, [], "storage")).toBe("mixed");
    expect(placeNow({ ...view(), edges }, [], "optimizer")).toBe("device");
    expect(placeNow(view(), [], "storage")).toBe("device");
  });

  it("is that they are computed again, or some", () => {
    const nodes = [node("a", "", { recomputed: true }), node("b", "")];
    expect(recomputedNow(nodes, [], "layers")).toBe("mixed");
    expect(recomputedNow([], [], "layers")).toBe(false);
  });
});

describe("the way of recomputation", () => {
  const presets = [
    { name: "zero3", summary: "", axes: ["axis"], recompute: [] },
    { name: "recompute_full", summary: "", axes: [], recompute: ["layers|h.*"] },
    { name: "recompute_selective", summary: "", axes: [], recompute: ["attn.attend"] },
  ];
  const mode = (...decisions: [string, boolean][]) =>
    recomputeMode(
      plan(1, {
        decisions: decisions.map(([target, again]) => ({ type: "recompute", target, again })),
      }),
      presets,
    );

  it("is that of the preset whose decisions there are", () => {
    expect(mode()).toBe("none");
    expect(mode(["layers|h.*", true])).toBe("recompute_full");
    expect(mode(["attn.attend", true])).toBe("recompute_selective");
  });

  it("is another with other decisions", () => {
    expect(mode(["mlp", true])).toBe("mixed");
    expect(mode(["layers|h.*", true], ["mlp", false])).toBe("mixed");
    expect(mode(["layers|h.*", true], ["attn.attend", true])).toBe("mixed");
  });
});

describe("positions", () => {
  it.each([
    ["3, 17", [3, 17]],
    ["17 3;3", [3, 17]],
  ])("%s", (text, positions) => expect(readPositions(text)).toEqual({ positions }));

  it.each(["", "0", "x, 2", "1.5", "-1"])("not %s", (text) =>
    expect(readPositions(text)).toHaveProperty("fault"),
  );
});

describe("buckets", () => {
  const edges = [
    parameter("w", { badges: [badge(4, [0])] }),
    parameter("b", { badges: [badge(4, [0])] }),
    parameter("alone", { badges: [badge(3, [])] }),
  ];
  const whole = { ...view(), edges, buckets: [bucket, { ...bucket, count: 1, nbytes: 40 }] };

  it("are counted with all that they stand for", () => {
    expect(bucketTotals(whole)).toEqual({ count: 5, largest: 40 });
    expect(bucketTotals(view())).toEqual({ count: 0, largest: 0 });
  });

  it("count once among the collectives of what they serve", () => {
    expect(collectivesOf(whole, new Set(["run:layers.*.a"]))).toBe(8 + 3);
    expect(collectivesOf(whole, new Set(["other"]))).toBe(0);
  });
});

it("a decision on parameters says what it decides", () => {
  const decision: ParameterDecision = {
    type: "parameter",
    target: "*",
    of: "storage",
    axes: [],
    layout: null,
    regather: false,
    deferred: false,
    place: null,
  };
  const text = (part: Partial<ParameterDecision>) => parameterText({ ...decision, ...part });
  expect(text({})).toBe("as read");
  expect(text({ of: "optimizer" })).toBe("optimizer as before");
  expect(text({ axes: ["dp"], regather: true })).toBe("fetched again over");
  expect(text({ layout: "[tp, -]" })).toBe("[tp, -]");
  expect(text({ of: "optimizer", place: "host" })).toBe("optimizer on host");
  expect(text({ of: "gradient", deferred: true })).toBe("gradient once a step");
});
