import { describe, expect, it } from "vitest";
import { batchFault, clusterName, meshFault, parseCluster } from "./mesh";

const cluster = parseCluster("1x8-h100-sxm");

it("reads and writes cluster names", () => {
  expect(cluster).toEqual({ nodes: 1, perNode: 8, device: "h100-sxm" });
  expect(clusterName(cluster)).toBe("1x8-h100-sxm");
});

describe("a mesh", () => {
  const fault = (...axes: [string, number][]) =>
    meshFault(
      axes.map(([name, size]) => ({ name, size })),
      cluster,
    );

  it("fits when the product is the number of devices", () => {
    expect(fault(["dp", 2], ["tp", 4])).toBeNull();
  });

  it("tells numbers and a remedy when it does not", () => {
    expect(fault(["dp", 2], ["tp", 2])).toBe(
      "2 × 2 = 4 ranks, but the cluster has 8 devices. Make tp 4, or change the cluster.",
    );
    expect(fault(["dp", 3])).toContain("Make dp 8");
  });

  it("has named axes, each once", () => {
    expect(fault(["dp", 2], ["dp", 4])).toBe("Two axes are named dp.");
    expect(fault(["", 8])).toBe("An axis has no name.");
    expect(fault(["1d", 8])).toContain('"1d" is no axis name');
    expect(fault(["dp", 0])).toContain("whole numbers");
  });
});

it("a batch divides into its microbatches", () => {
  expect(batchFault(8, 2)).toBeNull();
  expect(batchFault(8, 3)).toContain("2 are left over");
});
