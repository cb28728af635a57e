/** The layout's own thread: it holds a skeleton and answers requests with geometries. */

import { LayoutEngine } from "./layout/engine";
import type { Geometry, Skeleton } from "./layout/types";

export interface LayoutRequest {
  readonly id: number;
  /** Left out when only the open groups changed. */
  readonly skeleton?: Skeleton;
  readonly open: readonly boolean[];
}

export interface LayoutAnswer {
  readonly id: number;
  readonly geometry: Geometry;
  readonly milliseconds: number;
}

const engine = new LayoutEngine();
let skeleton: Skeleton | null = null;

self.onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { id, open } = event.data;
  skeleton = event.data.skeleton ?? skeleton;
  if (!skeleton) return;
  const start = performance.now();
  const geometry = engine.layout(skeleton, open);
  const answer: LayoutAnswer = { id, geometry, milliseconds: performance.now() - start };
  const parts = [
    geometry.kind,
    geometry.ref,
    geometry.depth,
    geometry.rect,
    geometry.linkTensor,
    geometry.linkDelivery,
    geometry.linkFlags,
    geometry.linkStart,
    geometry.points,
  ];
  self.postMessage(answer, { transfer: parts.map((part) => part.buffer) });
};
