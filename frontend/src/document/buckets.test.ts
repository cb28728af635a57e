import { expect, it } from "vitest";
import { bucketName, collectivesIn, sharedBuckets } from "./buckets";

const buckets = [
  { gradients: 1, count: 1, collectives: 1, runs: 2 },
  { gradients: 7, count: 8, collectives: 2, runs: 16 },
  { gradients: 3, count: 1, collectives: 1, runs: 1 },
];

it("are numbered one by one", () => {
  expect([0, 1, 2].map((at) => bucketName(buckets, at))).toEqual(["1", "2–9", "10"]);
});

it("are worth telling where a gradient is not by itself", () => {
  expect(sharedBuckets(buckets, { buckets: [1, 2] })).toEqual([1, 2]);
  expect(sharedBuckets(buckets, { buckets: [0] })).toEqual([]);
  expect(sharedBuckets(buckets, {})).toEqual([]);
  expect(sharedBuckets(buckets, undefined)).toEqual([]);
});

it("take their collectives every time", () => {
  expect(buckets.map(collectivesIn)).toEqual([2, 32, 1]);
  expect(collectivesIn(undefined)).toBe(0);
});
