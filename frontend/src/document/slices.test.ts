import { describe, expect, it } from "vitest";
import {
  acrossAxes,
  columnsOf,
  coordinates,
  drawnDims,
  fraction,
  overlap,
  partText,
} from "./slices";

describe("the dims of a picture", () => {
  it("are all of a vector or matrix", () => {
    expect(drawnDims([8], [[[[0, 8]]]])).toEqual({ span: [0], strips: [] });
    expect(
      drawnDims(
        [4, 8],
        [
          [
            [
              [0, 4],
              [0, 8],
            ],
          ],
        ],
      ),
    ).toEqual({ span: [0, 1], strips: [] });
  });

  const cut = (shape: number[], dims: number[]) => [
    [shape.map((size, dim): [number, number] => [0, dims.includes(dim) ? size / 2 : size])],
  ];

  it("are those that are cut, at most three; the rest are strips", () => {
    const shape = [2, 4, 6, 8, 10];
    expect(drawnDims(shape, cut(shape, [1, 3]))).toEqual({ span: [1, 3], strips: [] });
    expect(drawnDims(shape, cut(shape, [0, 1, 3]))).toEqual({ span: [0, 1, 3], strips: [] });
    expect(drawnDims(shape, cut(shape, [0, 1, 3, 4]))).toEqual({ span: [0, 1, 3], strips: [4] });
  });

  it("are filled up to a rectangle by the last ones", () => {
    expect(drawnDims([2, 4, 6], cut([2, 4, 6], [0]))).toEqual({ span: [0, 2], strips: [] });
    expect(drawnDims([2, 4, 6], cut([2, 4, 6], [2]))).toEqual({ span: [1, 2], strips: [] });
    expect(drawnDims([2, 4, 6], cut([2, 4, 6], []))).toEqual({ span: [1, 2], strips: [] });
  });

  it("count a cut in any state", () => {
    const [before] = cut([2, 4, 6], [0]);
    const [after] = cut([2, 4, 6], [1]);
    expect(drawnDims([2, 4, 6], [before ?? [], after ?? []]).span).toEqual([0, 1]);
  });
});

it("numbers ranks row-major", () => {
  const mesh = [
    ["dp", 2],
    ["tp", 4],
  ] as const;
  expect([0, 1, 4, 7].map((rank) => coordinates(rank, mesh))).toEqual([
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 3],
  ]);
});

it.each([
  [[2, 4], 1, 4],
  [[8, 8], 1, 8],
  [[2, 2, 2], 2, 4],
  [[16, 1], 2, 16],
  [[64, 1], 0, 8],
  [[64, 2], 0, 8],
  [[2], 1, 2],
  [[1], 1, 1],
  [[64], 0, 8],
  [[3, 8], 1, 8],
  [[4, 4, 4], 2, 16],
])("arranges a mesh of %j with %i axes across, %i columns", (sizes, across, columns) => {
  const mesh = sizes.map((size, axis) => [`a${axis}`, size] as const);
  expect([acrossAxes(mesh), columnsOf(mesh)]).toEqual([across, columns]);
});

it("knows what two parts have in common", () => {
  const one = [
    [0, 4],
    [2, 6],
  ] as const;
  expect(
    overlap(one, [
      [3, 8],
      [0, 3],
    ]),
  ).toEqual([
    [3, 4],
    [2, 3],
  ]);
  expect(
    overlap(one, [
      [4, 8],
      [0, 6],
    ]),
  ).toBeNull();
  expect(overlap([], [])).toEqual([]);
});

it("writes parts and fractions", () => {
  expect(
    partText([
      [0, 4],
      [8, 16],
    ]),
  ).toBe("[0:4, 8:16]");
  expect(partText([[4, 4]])).toBe("nothing");
  expect(fraction([2, 4], 8)).toEqual([0.25, 0.25]);
  expect(fraction([0, 0], 0)).toEqual([0, 0]);
});
