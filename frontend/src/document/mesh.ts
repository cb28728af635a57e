// What a mesh and cluster form can tell before it is sent. The server has the last word.
import type { MeshAxis } from "../api/types";

export interface ClusterParts {
  nodes: number;
  perNode: number;
  device: string;
}

export function parseCluster(name: string): ClusterParts {
  const match = /^(\d+)x(\d+)-(.+)$/.exec(name);
  if (!match) return { nodes: 1, perNode: 8, device: name };
  return { nodes: Number(match[1]), perNode: Number(match[2]), device: match[3] ?? "" };
}

export function clusterName({ nodes, perNode, device }: ClusterParts): string {
  return `${nodes}x${perNode}-${device}`;
}

export function deviceCount({ nodes, perNode }: ClusterParts): number {
  return nodes * perNode;
}

/** Why the mesh does not fit the cluster, with a remedy; null if it does. */
export function meshFault(axes: readonly MeshAxis[], cluster: ClusterParts): string | null {
  const names = axes.map((axis) => axis.name);
  const bad = names.find((name) => !/^[A-Za-z][A-Za-z0-9_]*$/.test(name));
  if (bad !== undefined) {
    return bad === ""
      ? "An axis has no name."
      : `"${bad}" is no axis name. Use letters, digits and _, with a letter first.`;
  }
  const twice = names.find((name, position) => names.indexOf(name) !== position);
  if (twice !== undefined) return `Two axes are named ${twice}.`;
  if (axes.some(({ size }) => !Number.isInteger(size) || size < 1)) {
    return "Sizes are whole numbers of at least 1.";
  }
  const ranks = axes.reduce((product, axis) => product * axis.size, 1);
  const devices = deviceCount(cluster);
  if (ranks === devices) return null;
  const rest = (devices / ranks) * (axes.at(-1)?.size ?? 1);
  const remedy =
    axes.length > 0 && Number.isInteger(rest) && rest > 0
      ? ` Make ${axes.at(-1)?.name} ${rest}, or change the cluster.`
      : " Make the sizes multiply to the number of devices.";
  return `${product(axes)} = ${ranks} ranks, but the cluster has ${devices} devices.${remedy}`;
}

export function product(axes: readonly MeshAxis[]): string {
  return axes.map(({ size }) => size).join(" × ");
}

/** Why a batch can't be cut; null if it can. */
export function batchFault(globalBatch: number, microbatches: number): string | null {
  if (microbatches < 1 || globalBatch < 1) return "Numbers of at least 1 are needed.";
  const rest = globalBatch % microbatches;
  return rest === 0
    ? null
    : `${globalBatch} samples don't divide into ${microbatches} microbatches (${rest} are left over).`;
}
