import { describe, expect, it } from "vitest";
import type { GroupView } from "../api/types";
import { factor, node, view } from "./fixtures";
import { layersOf, reselect, targetFor } from "./layers";
import {
  buildTree,
  carryOpen,
  follow,
  followCanvas,
  openAtFirst,
  pathTo,
  sibling,
  treeMove,
  visibleRows,
} from "./tree";

describe("the outline", () => {
  const tree = buildTree(view());

  it("nests operators in groups and counts layers where they begin", () => {
    expect(tree.roots).toEqual([":layers", ":head"]);
    expect(tree.items.get("run:layers.*")).toMatchObject({ depth: 1, times: 4 });
    expect(pathTo(tree, "run:layers.*.a")).toEqual([":layers", "run:layers.*", "run:layers.*.a"]);
  });

  it("shows what is in open groups", () => {
    expect(visibleRows(tree, new Set(), "")).toEqual([":layers", ":head"]);
    expect(visibleRows(tree, new Set([":layers"]), "")).toEqual([
      ":layers",
      "run:layers.*",
      ":head",
    ]);
  });

  it("puts makers before readers, whatever their scope", () => {
    const plan = view();
    const [edge] = plan.edges;
    if (!edge) throw new Error("the fixture has an edge");
    const more = [
      { ...edge, id: ":b", producer: "run:layers.*.b", readers: [":head"] },
      {
        ...edge,
        id: "carry",
        kind: "carry",
        producer: "run:layers.*.b",
        readers: ["run:layers.*.a"],
      },
    ];
    const mixed = buildTree({ ...plan, edges: [edge, ...more], nodes: [...plan.nodes].reverse() });
    expect(mixed.roots).toEqual([":layers", ":head"]);
    expect(mixed.items.get("run:layers.*")?.children).toEqual(["run:layers.*.a", "run:layers.*.b"]);
  });

  it("filters by name, kind and axis, and keeps the groups around", () => {
    expect(visibleRows(tree, new Set(), "layers b")).toEqual([
      ":layers",
      "run:layers.*",
      "run:layers.*.b",
    ]);
    expect(visibleRows(tree, new Set(), "nothing")).toEqual([]);
  });

  it("begins with runs of layers folded, and follows the canvas from there", () => {
    const whole = view();
    const groups = whole.groups.map((group) =>
      group.id === "run:layers.*" ? { ...group, total: 4 } : group,
    );
    const first = new Set(openAtFirst(buildTree({ ...whole, groups })));
    expect(first.has("run:layers.*")).toBe(false);
    expect(first.has(":layers")).toBe(true);
    const opened = followCanvas(first, [":head"], [":head", "run:layers.*"]);
    expect([...opened].sort()).toEqual([...first, "run:layers.*"].sort());
    expect(followCanvas(opened, [":head", "run:layers.*"], [":head"])).toEqual(first);
  });

  it("steps along edges and among siblings", () => {
    expect(follow(view(), "run:layers.*.a", "down")).toBe("run:layers.*.b");
    expect(follow(view(), "run:layers.*.b", "up")).toBe("run:layers.*.a");
    expect(follow(view(), "run:layers.*.a", "up")).toBeNull();
    expect(sibling(tree, "run:layers.*.a", 1)).toBe("run:layers.*.b");
    expect(sibling(tree, "run:layers.*.b", 1)).toBeNull();
  });
});

it("what was open stays open in the run that the selection went to", () => {
  const before = view();
  const cut = (start: number, layers: number) => ({
    group: { ...(before.groups[1] ?? neverGroup()), id: `run${start}:layers.*`, start, layers },
    node: { ...node("layers.*.a", `run${start}:layers.*`), id: `run${start}:layers.*.a` },
  });
  const runs = [cut(0, 2), cut(2, 2)];
  const after = {
    ...before,
    groups: [...before.groups.slice(0, 1), ...runs.map((run) => run.group)],
    nodes: runs.map((run) => run.node),
    edges: [],
  };
  const open = new Set([":layers", "run:layers.*"]);
  const carried = carryOpen(buildTree(before), buildTree(after), open, "run2:layers.*.a");
  expect([...carried].sort()).toEqual([":layers", "run2:layers.*", "run:layers.*"]);
});

function neverGroup(): never {
  throw new Error("the fixture has a run");
}

describe("keys in the tree", () => {
  const tree = buildTree(view());
  const open = new Set([":layers"]);
  const rows = visibleRows(tree, open, "");
  const move = (id: string, key: string) => treeMove(tree, rows, (i) => open.has(i), id, key);

  it.each([
    [":layers", "ArrowDown", { select: "run:layers.*" }],
    [":layers", "ArrowUp", {}],
    [":layers", "End", { select: ":head" }],
    [":layers", "ArrowRight", { select: "run:layers.*" }],
    ["run:layers.*", "ArrowRight", { toggle: "run:layers.*" }],
    ["run:layers.*", "ArrowLeft", { select: ":layers" }],
    [":layers", "ArrowLeft", { toggle: ":layers" }],
    [":head", "Enter", { select: ":head" }],
    [":head", "x", null],
  ])("%s %s", (id, key, expected) => expect(move(id, key)).toEqual(expected));
});

describe("layers", () => {
  it("come from the run around an operator", () => {
    const plan = view();
    expect(layersOf(plan, node("a", "run:layers.*"))).toEqual({
      first: 0,
      last: 3,
      step: 1,
      least: 0,
      most: 3,
    });
    expect(layersOf(plan, node("head", ""))).toBeNull();
  });

  it("are written into the target", () => {
    expect(targetFor("layers.*.a", { kind: "all" })).toBe("layers.*.a");
    expect(targetFor("layers.*.a", { kind: "range", first: 2, last: 2 })).toBe("layers.2.a");
    expect(targetFor("layers.*.a", { kind: "range", first: 1, last: 3 })).toBe("layers.1-3.a");
  });

  it("are the true ones of a list with others before them, or between", () => {
    const [list] = view().groups;
    const run = { ...list, id: "r", start: 5, layers: 10, step: 2, total: 24 } as GroupView;
    const plan = { ...view(), groups: [{ ...run, path: "layers.1-23+2" }] };
    expect(layersOf(plan, node("a", "r"))).toEqual({
      first: 5,
      last: 23,
      step: 2,
      least: 1,
      most: 23,
    });
    const some = (last: number) => ({ kind: "range", first: 3, last }) as const;
    expect(targetFor("layers.3-60.a", some(7))).toBe("layers.3-7.a");
    expect(targetFor("layers.1-23+2.a", some(7))).toBe("layers.3-7+2.a");
    expect(targetFor("layers.1-23+2.a", some(3))).toBe("layers.3.a");
    expect(targetFor("layers.1-23+2.a", { kind: "all" })).toBe("layers.1-23+2.a");
  });

  it("lead the selection to the run that holds the edited layer", () => {
    const before = view();
    const runs = [0, 2].map((start) => ({
      ...(before.groups[1] ?? {
        path: "",
        label: "",
        class_name: "",
        parent: "",
        total: 4,
        step: 1,
      }),
      id: `run${start}:layers.*`,
      start,
      layers: 2,
    }));
    const nodes = runs.map((run) => ({
      ...node("layers.*.a", run.id, { factors: [factor("n", [])] }),
      id: `${run.id}.a`,
    }));
    const after = { ...before, groups: runs, nodes };
    expect(reselect(before, after, "run:layers.*.a", 3)).toBe("run2:layers.*.a");
    expect(reselect(before, after, "run:layers.*.a", null)).toBe("run0:layers.*.a");
    expect(reselect(before, after, "run:layers.*", 3)).toBe("run2:layers.*");
    expect(reselect(before, after, "run:layers.*", null)).toBe("run0:layers.*");
    expect(reselect(before, before, "run:layers.*", 3)).toBe("run:layers.*");
    expect(reselect(before, after, ":gone", null)).toBeNull();
  });
});
