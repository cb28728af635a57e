import { describe, expect, it } from "vitest";
import type { Problem } from "../api/types";
import {
  around,
  FIRST,
  fieldAt,
  fieldsOfQuery,
  fieldsOn,
  hasOptions,
  queryOf,
  requestOf,
  standsStill,
} from "./redistribution";

function problem(code: string, more: Partial<Problem> = {}): Problem {
  return {
    type: "about:blank",
    title: "",
    status: 422,
    detail: "no",
    code,
    hint: "",
    subject: "",
    place: null,
    ...more,
  };
}

describe("the address", () => {
  it("holds what is typed, whatever it is", () => {
    const typed = { ...FIRST, source: "[dp, tp·cp] +ep", target: "P('dp', None)&x=1", cluster: "" };
    expect(fieldsOfQuery(`?${queryOf(typed)}`)).toEqual(typed);
    expect(queryOf(typed)).not.toContain("cluster");
  });

  it("says what is to be least only where it is another than time", () => {
    const fewest = { ...FIRST, objective: "steps", exchange: "no" };
    expect(queryOf(FIRST)).not.toMatch(/objective|exchange|to-|planner/);
    expect([hasOptions(FIRST), hasOptions(fewest)]).toEqual([false, true]);
    expect(fieldsOfQuery(queryOf(fewest))).toEqual(fewest);
    expect(requestOf(fewest)).toMatchObject({ objective: "steps", exchange: false });
  });

  it("may leave out what is as at first", () => {
    expect(fieldsOfQuery("")).toEqual(FIRST);
    expect(fieldsOfQuery("?to=[-, -]")).toEqual({ ...FIRST, target: "[-, -]" });
  });
});

it("asks for the server's own cluster where none is named", () => {
  expect(requestOf({ ...FIRST, cluster: " " }).cluster).toBeNull();
  expect(requestOf({ ...FIRST, cluster: "8x8-h100-sxm" })).toMatchObject({
    cluster: "8x8-h100-sxm",
    mesh: "dp:8,tp:8",
    shape: "16384x16384",
  });
});

it.each([
  [
    [
      ["pp", 1],
      ["dp", 2],
      ["tp", 4],
    ],
    "[dp, tp]",
    "[tp, dp]",
  ],
  [[["tp", 8]], "[tp, -]", "[-, tp]"],
  [[["tp", 1]], "[-, -]", "[-, -]"],
] as [[string, number][], string, string][])("begins on %j", (mesh, source, target) => {
  expect(fieldsOn(mesh, "c")).toMatchObject({ source, target, cluster: "c" });
});

describe("a refusal", () => {
  it("belongs to the field whose text has the place", () => {
    const place = { text: FIRST.target, start: 1, stop: 3 };
    expect(fieldAt(problem("layout.syntax", { place }), FIRST)).toBe("target");
    expect(fieldAt(problem("mesh.axis-unknown", { place }), FIRST)).toBe("target");
  });

  it("else to the one that subject or code tell, or to none", () => {
    expect(fieldAt(problem("http.invalid", { subject: "dtype" }), FIRST)).toBe("dtype");
    expect(fieldAt(problem("http.invalid", { subject: "mesh.text" }), FIRST)).toBe("mesh");
    expect(fieldAt(problem("tensor.dtype-unknown"), FIRST)).toBe("dtype");
    expect(fieldAt(problem("hardware.node-size"), FIRST)).toBe("cluster");
    expect(fieldAt(problem("surface.shape-syntax"), FIRST)).toBe("shape");
    expect(fieldAt(problem("http.shape-too-large"), FIRST)).toBe("shape");
    expect(fieldAt(problem("mesh.device-count"), FIRST)).toBe("mesh");
    expect(fieldAt(problem("http.unreachable"), FIRST)).toBeNull();
  });
});

it("lasts until what is wrong is changed", () => {
  const place = { text: FIRST.source, start: 1, stop: 3 };
  const marked = problem("layout.syntax", { place });
  expect(standsStill(marked, FIRST, { ...FIRST, shape: "4" })).toBe(true);
  expect(standsStill(marked, FIRST, { ...FIRST, source: "[-, -]" })).toBe(false);
  const plain = problem("mesh.device-count");
  expect(standsStill(plain, FIRST, FIRST)).toBe(true);
  expect(standsStill(plain, FIRST, { ...FIRST, cluster: "1x8-h100-sxm" })).toBe(false);
});

describe("the text around a place", () => {
  it("is the whole of a short one", () => {
    expect(around({ text: "[dp, tp", start: 5, stop: 7 }, 40)).toEqual({
      before: "[dp, ",
      marked: "tp",
      after: "",
    });
  });

  it("marks a blank at the end", () => {
    expect(around({ text: "[dp", start: 3, stop: 3 }, 40)).toEqual({
      before: "[dp",
      marked: " ",
      after: "",
    });
  });

  it("is cut where it is long, and keeps the place", () => {
    const text = `${"a".repeat(60)}!${"b".repeat(60)}`;
    expect(around({ text, start: 60, stop: 61 }, 20)).toEqual({
      before: `…${"a".repeat(10)}`,
      marked: "!",
      after: `${"b".repeat(9)}…`,
    });
  });
});
