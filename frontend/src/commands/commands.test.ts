import { describe, expect, it } from "vitest";
import type { Choice } from "../api/types";
import { factor, node } from "../document/fixtures";
import {
  applyPreset,
  followAgain,
  forget,
  sharedAxis,
  sharedFactors,
  storeParameter,
  toggleAxis,
  toggleShared,
} from "./edits";
import { keyCaps, pressed } from "./keys";

const operator = node("layers.*.q_proj", "", {
  factors: [
    factor("batch", ["dp"]),
    factor("k", []),
    { ...factor("n", ["tp"], true), pins: ["q_proj"] },
  ],
});

function choice(name: string, axis: string, on: boolean, sets: [string, string[]][]): Choice {
  return { factor: name, axis, on, legal: true, reason: "", remedy: "", sets };
}

const choices = [
  choice("batch", "dp", true, [["batch", []]]),
  choice("k", "tp", false, [
    ["n", []],
    ["k", ["tp"]],
  ]),
  choice("n", "tp", true, [["n", []]]),
];

describe("several operators", () => {
  const other = node("layers.*.o_proj", "", {
    factors: [factor("batch", []), factor("k", ["tp"]), factor("n", [])],
  });
  const both = [
    { node: operator, choices },
    {
      node: other,
      choices: [
        choice("batch", "dp", false, [["batch", ["dp"]]]),
        choice("k", "tp", true, [["k", []]]),
      ],
    },
  ];

  it("share the factors that all have", () => {
    expect(sharedFactors(both)).toEqual(["batch", "k"]);
    expect(sharedFactors([])).toEqual([]);
    expect(sharedAxis(both, "batch", "dp")).toBe("mixed");
    expect(sharedAxis(both.slice(0, 1), "batch", "dp")).toBe("on");
    expect(sharedAxis(both, "batch", "tp")).toBe("off");
  });

  it("get an axis where they lack it, as one step", () => {
    expect(toggleShared(both, "batch", "dp")).toEqual({
      changes: [{ type: "factor", target: "layers.*.o_proj", factor: "batch", axes: ["dp"] }],
      label: "split batch over dp in 2 operators",
      field: "marked",
      layer: null,
    });
  });

  it("lose it where all have it", () => {
    const twice = [both[0], both[0]].flatMap((entry) => (entry ? [entry] : []));
    const step = toggleShared(twice, "batch", "dp");
    expect(step.label).toBe("keep batch whole over dp in 2 operators");
    expect(step.changes).toHaveLength(2);
  });
});

describe("forgetting a decision", () => {
  it("lets a factor follow", () => {
    const decision = { type: "factor", target: "q_proj", factor: "n", axes: ["tp"] } as const;
    expect(forget({ ...decision, axes: ["tp"] })).toMatchObject({
      changes: [{ type: "factor", target: "q_proj", factor: "n", axes: null }],
      label: "forget n of q_proj",
    });
  });

  it("says which state of a parameter it was about", () => {
    const decision = {
      type: "parameter" as const,
      target: "*",
      of: "optimizer" as const,
      axes: [],
      layout: null,
      regather: false,
      deferred: false,
      place: "host" as const,
    };
    expect(forget(decision)).toMatchObject({
      changes: [{ type: "parameter", target: "*", of: "optimizer", axes: null }],
      label: "forget where the optimizer of * lies",
    });
  });

  it("finishes a partial result", () => {
    const kept = { type: "keep" as const, target: "residual", axis: "tp", carriers: [0, 1] };
    expect(forget(kept)).toMatchObject({
      changes: [{ type: "keep", target: "residual", axis: "tp", carriers: null }],
      label: "forget partial tp of residual",
    });
  });
});

describe("toggling an axis", () => {
  it("sends what the choice says, for all layers", () => {
    const step = toggleAxis(operator, choices, "k", "tp", { kind: "all" });
    expect(step.changes).toEqual([
      { type: "factor", target: "layers.*.q_proj", factor: "n", axes: [] },
      { type: "factor", target: "layers.*.q_proj", factor: "k", axes: ["tp"] },
    ]);
    expect(step).toMatchObject({ label: "move tp of q_proj from n to k", field: "factor:k" });
  });

  it("names one layer, and asks for the selection to follow it", () => {
    const reach = { kind: "range", first: 3, last: 3 } as const;
    const step = toggleAxis(operator, choices, "n", "tp", reach);
    expect(step.changes[0]).toMatchObject({ target: "layers.3.q_proj", axes: [] });
    expect(step).toMatchObject({ layer: 3, label: "keep q_proj n whole over tp, layer 3" });
  });

  it("goes by what is drawn when the choices are of another state", () => {
    const drawn = {
      ...operator,
      factors: [factor("batch", ["dp"]), factor("k", ["tp"]), factor("n", [])],
    };
    const step = toggleAxis(drawn, choices, "k", "tp", { kind: "all" });
    expect(step.changes).toEqual([
      { type: "factor", target: "layers.*.q_proj", factor: "k", axes: [] },
    ]);
    const moved = toggleAxis(drawn, choices, "batch", "tp", { kind: "all" });
    expect(moved.changes).toEqual([
      { type: "factor", target: "layers.*.q_proj", factor: "batch", axes: ["dp", "tp"] },
      { type: "factor", target: "layers.*.q_proj", factor: "k", axes: [] },
    ]);
  });
});

it("following again forgets the decisions that pin the factor, however they are written", () => {
  expect(followAgain(operator, "n").changes).toEqual([
    { type: "factor", target: "q_proj", factor: "n", axes: null },
  ]);
});

describe("storing a parameter", () => {
  const stored = (axes: string[], regather: boolean, target = "layers.*.a.weight") => ({
    type: "parameter",
    target,
    of: "storage",
    axes,
    layout: null,
    regather,
    deferred: false,
  });
  const store = (before: string[], after: string[], regather: boolean) =>
    storeParameter("layers.*/a.weight", before, after, regather).changes;

  it("names it by its dotted path", () => {
    expect(store([], ["dp"], true)).toEqual([stored(["dp"], true)]);
  });

  it("takes back what was, where an axis goes", () => {
    expect(store(["dp"], [], false)).toEqual([stored([], false)]);
    expect(store(["dp", "tp"], ["tp"], true)).toEqual([stored([], false), stored(["tp"], true)]);
  });

  it("is for the layers that edits are for", () => {
    const one = { kind: "range", first: 2, last: 2 } as const;
    const step = storeParameter("layers.*/a.weight", [], ["dp"], false, one);
    expect(step.changes).toEqual([stored(["dp"], false, "layers.2.a.weight")]);
    expect(step).toMatchObject({ label: "shard a.weight over dp, layer 2", layer: 2 });
  });
});

it("a preset gets the axis for each of its open axes", () => {
  const preset = { name: "megatron", summary: "", axes: ["axis"], recompute: [] };
  expect(applyPreset(preset, "tp")).toMatchObject({
    changes: [{ type: "preset", name: "megatron", axes: { axis: ["tp"] } }],
    label: "Megatron tensor parallel over tp",
  });
});

describe("keys", () => {
  const press = (key: string, more = {}) => ({
    key,
    ctrlKey: false,
    metaKey: false,
    shiftKey: false,
    altKey: false,
    ...more,
  });

  it.each([
    ["mod+z", press("z", { ctrlKey: true }), true],
    ["mod+z", press("Z", { ctrlKey: true, shiftKey: true }), false],
    ["mod+shift+z", press("Z", { metaKey: true, shiftKey: true }), true],
    ["f", press("f"), true],
    ["f", press("f", { ctrlKey: true }), false],
    ["?", press("?", { shiftKey: true }), true],
    ["arrowdown", press("ArrowDown"), true],
  ])("%s", (keys, event, expected) => expect(pressed(event, keys)).toBe(expected));

  it("are shown as caps", () => expect(keyCaps("mod+shift+z")).toEqual(["Ctrl", "Shift", "Z"]));
});
