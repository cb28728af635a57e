import { describe, expect, it } from "vitest";
import { limits, moved, spans, unitAt } from "./stages";

const WEIGHTS = [1, 2, 2, 2, 3];

describe("stages along the model", () => {
  it("are as wide as what they run", () => {
    const found = spans([0, 2, 5], WEIGHTS);
    expect(found.map(({ count, seconds }) => [count, seconds])).toEqual([
      [2, 3],
      [3, 7],
    ]);
    expect(found[1]).toMatchObject({ left: 0.3, width: 0.7 });
  });

  it("begin at the nearest unit", () => {
    expect(unitAt(WEIGHTS, 0.0)).toBe(0);
    expect(unitAt(WEIGHTS, 0.12)).toBe(1);
    expect(unitAt(WEIGHTS, 0.21)).toBe(2);
    expect(unitAt(WEIGHTS, 1)).toBe(4);
  });

  it("keep one unit each", () => {
    expect(limits([0, 2, 3, 5], 2)).toEqual([3, 4]);
    expect(moved([0, 2, 3, 5], 2, 4)).toEqual([0, 2, 4, 5]);
  });
});
