import { describe, expect, it } from "vitest";
import type { RedistributionStep, Slices } from "../../api/types";
import { partsOf } from "./parts";
import { behind, type Solid } from "./solid";

type Box = [number, number][];

function held(...slices: Box[]): Slices {
  return {
    layout: "",
    mesh: [["tp", slices.length]],
    shape: [8],
    partial: [],
    reduce: "sum",
    ranks: slices.length,
    slices,
    note: "",
  };
}

function step(...arrives: Box[][]): RedistributionStep {
  return {
    kind: "",
    axes: [],
    dim: 0,
    to_dim: -1,
    group_size: 1,
    source: "",
    target: "",
    source_shape: [],
    target_shape: [],
    received_bytes: 0,
    seconds: 0,
    why: "",
    arrives,
  };
}

describe("what a rank holds", () => {
  it("is held, at the start", () => {
    expect(partsOf(0, held([[0, 4]]), undefined, undefined)).toEqual({
      held: [[0, 4]],
      kept: [[0, 4]],
      arrived: [],
      before: null,
    });
  });

  it("is kept and new after a gather, with nothing dropped", () => {
    const parts = partsOf(0, held([[0, 8]]), held([[0, 4]]), step([[[4, 8]]]));
    expect(parts).toEqual({ held: [[0, 8]], kept: [[0, 4]], arrived: [[[4, 8]]], before: null });
  });

  it("is less after a slice, and what was before is told", () => {
    const parts = partsOf(0, held([[0, 4]]), held([[0, 8]]), step([]));
    expect(parts).toEqual({ held: [[0, 4]], kept: [[0, 4]], arrived: [], before: [[0, 8]] });
  });

  it("is all new where a sum is finished", () => {
    const parts = partsOf(0, held([[0, 4]]), held([[0, 8]]), step([[[0, 4]]]));
    expect(parts).toEqual({ held: [[0, 4]], kept: null, arrived: [[[0, 4]]], before: [[0, 8]] });
  });

  it("is drawn alone after a reshape, with what is new", () => {
    const before = { ...held([[0, 4]]), shape: [4, 2] };
    expect(partsOf(0, held([[0, 4]]), before, step([[[2, 4]]]))).toEqual({
      held: [[0, 4]],
      kept: [[0, 4]],
      arrived: [[[2, 4]]],
      before: null,
    });
  });

  it("is nothing where an uneven dim leaves nothing", () => {
    const parts = partsOf(0, held([[8, 8]]), held([[0, 8]]), step([]));
    expect(parts).toEqual({ held: [[8, 8]], kept: null, arrived: [], before: [[0, 8]] });
  });
});

it("paints what is behind, below or left first", () => {
  const cube = (z: number, y: number, x: number): Solid => [
    [z, 0.5],
    [y, 0.5],
    [x, 0.5],
  ];
  const near = cube(0, 0, 0);
  expect(behind(cube(0.5, 0, 0), near)).toBeLessThan(0);
  expect(behind(cube(0, 0.5, 0), near)).toBeLessThan(0);
  expect(behind(cube(0, 0, 0.5), near)).toBeGreaterThan(0);
  expect(behind(near, near)).toBe(0);
});
