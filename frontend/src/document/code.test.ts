import { expect, it } from "vitest";
import type { CodeMark, DiffRange } from "../api/types";
import {
  chosen,
  countChanges,
  describeMark,
  hunkTitle,
  isCurrent,
  marksIn,
  nameOf,
  placeOf,
  rowsOf,
} from "./code";
import { view } from "./fixtures";

const mark = (first: number, more: Partial<CodeMark>): CodeMark => ({
  path: "model.py",
  first,
  last: first + 1,
  nodes: [],
  edges: [],
  ...more,
});

const update = mark(3, { edges: ["run:w"] });
const call = mark(9, { edges: ["run:w"] });
const shared = mark(12, { edges: ["run:a", "other:a"] });
const product = mark(15, { nodes: ["run:layers.*.a"] });
const MARKS = [update, call, shared, product];

it("finds the marks of a file by their first lines", () => {
  expect([...marksIn([...MARKS, { ...call, path: "train.py" }], "model.py").keys()]).toEqual([
    3, 9, 12, 15,
  ]);
});

it("shows where a value is moved rather than where its parameter is updated", () => {
  expect(placeOf(MARKS, { kind: "edge", id: "run:w" })).toBe(call);
  expect(placeOf(MARKS, { kind: "edge", id: "other:a" })).toBe(shared);
  expect(placeOf(MARKS, { kind: "node", id: "run:layers.*.a" })).toBe(product);
  expect(placeOf(MARKS, { kind: "edge", id: "run:layers.*.a" })).toBeNull();
});

it("lights the edge alone where one is selected", () => {
  const selected = "run:layers.*.a";
  expect(MARKS.filter((each) => isCurrent(each, { selected, edge: null }))).toEqual([product]);
  expect(MARKS.filter((each) => isCurrent(each, { selected, edge: "run:a" }))).toEqual([shared]);
  expect(MARKS.filter((each) => isCurrent(each, { selected: null, edge: null }))).toEqual([]);
});

it("goes from one run to the next when the lines of several are clicked again", () => {
  expect(chosen(shared, { selected: null, edge: null })).toBe("run:a");
  expect(chosen(shared, { selected: "x", edge: "run:a" })).toBe("other:a");
  expect(chosen(shared, { selected: "x", edge: "other:a" })).toBe("run:a");
  expect(chosen(product, { selected: "run:layers.*.a", edge: null })).toBe("run:layers.*.a");
});

it("says what lines stand for", () => {
  expect(describeMark(shared, view())).toBe("the edge a and 1 more");
  expect(describeMark(product, view())).toBe("the operator a");
  const [edge] = view().edges;
  expect(edge && nameOf({ ...edge, kind: "parameter", label: "weight", value: "x.y.weight" })).toBe(
    "y.weight",
  );
});

const HUNK: DiffRange[] = [
  { change: "equal", before: [4, 6], after: [5, 7] },
  { change: "replace", before: [6, 7], after: [7, 9] },
  { change: "delete", before: [7, 8], after: [9, 9] },
  { change: "insert", before: [8, 8], after: [9, 10] },
];

it("writes a hunk as rows, what went before what came", () => {
  expect(rowsOf(HUNK)).toEqual([
    { change: "same", before: 4, after: 5 },
    { change: "same", before: 5, after: 6 },
    { change: "out", before: 6, after: null },
    { change: "in", before: null, after: 7 },
    { change: "in", before: null, after: 8 },
    { change: "out", before: 7, after: null },
    { change: "in", before: null, after: 9 },
  ]);
  expect(countChanges([HUNK])).toEqual([3, 2]);
});

it("says where a hunk lies as diff does", () => {
  expect(hunkTitle(HUNK)).toBe("@@ -5,4 +6,5 @@");
  expect(hunkTitle([{ change: "insert", before: [0, 0], after: [0, 2] }])).toBe("@@ -0,0 +1,2 @@");
});
