import { describe, expect, it } from "vitest";
import { fromPlanView } from "../adapter";
import runs from "../fixtures/llama-8b-runs.json";
import large from "../fixtures/llama-405b.json";
import { syntheticView } from "../lab/synthetic";
import type { PlanView } from "../model";
import { makeStudio, type Studio } from "../studio";
import { LayoutEngine } from "./engine";
import { rankItems } from "./ranks";
import {
  at,
  type FrameSpec,
  type Geometry,
  ItemKind,
  LinkFlag,
  ShapeKind,
  type Skeleton,
} from "./types";

const measure = (_: string, text: string) => text.length * 6.2;

function studioOf(view: PlanView, direction: "forward" | "backward" = "forward"): Studio {
  return makeStudio(fromPlanView(view), direction, measure);
}

function layout(
  studio: Studio,
  open: (id: string) => boolean,
  engine = new LayoutEngine(),
): Geometry {
  return engine.layout(
    studio.skeleton,
    studio.model.groups.map((group) => open(group.id)),
  );
}

function rectOf(geometry: Geometry, shape: number) {
  const [x, y, width, height] = [0, 1, 2, 3].map((i) => at(geometry.rect, 4 * shape + i)) as [
    number,
    number,
    number,
    number,
  ];
  return { x, y, width, height, right: x + width, bottom: y + height };
}

/** Index of the frame around a shape; -1 at the top. */
function frameAround(studio: Studio, geometry: Geometry, shape: number): number {
  const ref = at(geometry.ref, shape);
  const kind = geometry.kind[shape];
  if (kind === ShapeKind.Badge) return -2;
  const parent =
    (kind === ShapeKind.Box ? studio.model.boxes : studio.model.groups)[ref]?.parent ?? -1;
  if (parent < 0) return -1;
  return geometry.kind.findIndex((k, i) => k === ShapeKind.Frame && geometry.ref[i] === parent);
}

const CASES: [string, PlanView, "forward" | "backward"][] = [
  ["405b", large, "forward"],
  ["405b backward", large, "backward"],
  ["8b in runs", runs, "forward"],
  ["synthetic", syntheticView(3), "forward"],
];

describe.each(CASES)("layout of %s", (_, view, direction) => {
  const studio = studioOf(view, direction);
  const geometries = [
    layout(studio, () => true),
    layout(studio, (id) => !id.includes("layers")),
    layout(studio, () => false),
  ];

  it.each([0, 1, 2])(
    "puts siblings and badges apart, and children inside their frames (%i)",
    (which) => {
      const geometry = geometries[which] as Geometry;
      const shapes = [...geometry.kind.keys()];
      const solid = shapes.filter((shape) => geometry.kind[shape] !== ShapeKind.Frame);
      for (const a of solid) {
        for (const b of solid) {
          if (a >= b) continue;
          const [p, q] = [rectOf(geometry, a), rectOf(geometry, b)];
          const apart = p.right <= q.x || q.right <= p.x || p.bottom <= q.y || q.bottom <= p.y;
          expect(apart, `shapes ${a} and ${b} overlap`).toBe(true);
        }
      }
      for (const shape of shapes) {
        const frame = frameAround(studio, geometry, shape);
        if (frame < 0) continue;
        const [inner, outer] = [rectOf(geometry, shape), rectOf(geometry, frame)];
        expect(inner.x).toBeGreaterThan(outer.x);
        expect(inner.right).toBeLessThan(outer.right);
        expect(inner.y).toBeGreaterThan(outer.y + 20);
        expect(inner.bottom).toBeLessThan(outer.bottom);
      }
    },
  );

  it("runs every line downwards, from box to box", () => {
    const geometry = geometries[0] as Geometry;
    for (let link = 0; link < geometry.linkTensor.length; link += 1) {
      for (let p = at(geometry.linkStart, link); p + 1 < at(geometry.linkStart, link + 1); p += 1) {
        expect(at(geometry.points, 2 * p + 3)).toBeGreaterThanOrEqual(
          at(geometry.points, 2 * p + 1),
        );
      }
    }
  });

  it("keeps long lines beside the boxes, not behind them", () => {
    const geometry = geometries[0] as Geometry;
    const solid = [...geometry.kind.keys()].filter((s) => geometry.kind[s] !== ShapeKind.Frame);
    for (let link = 0; link < geometry.linkTensor.length; link += 1) {
      for (let p = at(geometry.linkStart, link); p + 1 < at(geometry.linkStart, link + 1); p += 1) {
        const [x1, y1, x2, y2] = [0, 1, 2, 3].map((i) => at(geometry.points, 2 * p + i)) as [
          number,
          number,
          number,
          number,
        ];
        if (x1 !== x2) continue;
        for (const shape of solid) {
          const r = rectOf(geometry, shape);
          const through = x1 > r.x && x1 < r.right && y1 < r.bottom - 1 && y2 > r.y + 1;
          expect(through, `line ${link} passes behind shape ${shape}`).toBe(false);
        }
      }
    }
  });

  it("is the same every time", () => {
    const again = layout(studioOf(view, direction), () => true);
    expect(again.rect).toEqual(geometries[0]?.rect);
    expect(again.points).toEqual(geometries[0]?.points);
  });
});

describe("cache of frames", () => {
  it("lays identical layers out once", () => {
    const studio = studioOf(syntheticView(40));
    const geometry = layout(studio, () => true);
    expect(geometry.hits).toBeGreaterThan(39 * 6);
    expect(geometry.runs).toBeLessThan(20);
  });

  it("lays out only the opened group and those around it", () => {
    const engine = new LayoutEngine();
    const studio = studioOf(large);
    layout(studio, (id) => id === ":model", engine);
    const opened = layout(studio, (id) => id === ":model" || id.endsWith("layers.*"), engine);
    expect(opened.runs).toBe(3);
  });
});

/** A skeleton of boxes at the topmost level. */
function flat(count: number, edges: [number, number[]][], badge = false): Skeleton {
  return {
    groupParent: [],
    groupRun: [],
    groupClosed: [],
    groupHeader: [],
    boxParent: new Array(count).fill(-1),
    boxSize: new Array(count).fill([100, 40]).flat(),
    stems: edges.map(([producer, readers], tensor) => ({
      tensor,
      delivery: badge ? tensor : -1,
      width: badge ? 60 : 0,
      height: badge ? 20 : 0,
      producer,
      readers,
    })),
  };
}

describe("large and odd graphs", () => {
  it("lays out a chain of 10,000 operators without recursion", () => {
    const count = 10_000;
    const edges = Array.from({ length: count - 1 }, (_, i): [number, number[]] => [i, [i + 1]]);
    const geometry = new LayoutEngine().layout(flat(count, edges), []);
    expect(rectOf(geometry, count - 1).y).toBeGreaterThan(rectOf(geometry, count - 2).y);
    expect(rectOf(geometry, count - 1).x).toBeCloseTo(rectOf(geometry, 0).x);
  });

  it("lays out 10,000 operators in 1,800 open groups in time", () => {
    const studio = studioOf(syntheticView(250));
    expect(studio.model.boxes.length).toBeGreaterThan(9_500);
    const start = performance.now();
    layout(studio, () => true);
    // Measured below 300 ms; the budget leaves room for slow machines.
    expect(performance.now() - start).toBeLessThan(1_500);
  });

  it("survives a cycle between closed groups", () => {
    const geometry = new LayoutEngine().layout(
      flat(3, [
        [0, [1]],
        [1, [2]],
        [2, [0]],
      ]),
      [],
    );
    expect(geometry.kind.length).toBe(3);
    expect([...geometry.rect].every(Number.isFinite)).toBe(true);
  });

  it("is empty for an empty model", () => {
    const geometry = new LayoutEngine().layout(flat(0, []), []);
    expect(geometry.kind.length).toBe(0);
    expect(geometry.width).toBe(0);
  });

  it("keeps a residual straight while the trunk stays in one line", () => {
    const chain: [number, number[]][] = [
      [0, [1, 6]],
      [1, [2]],
      [2, [3]],
      [3, [4]],
      [4, [5]],
      [5, [6]],
    ];
    const geometry = new LayoutEngine().layout(flat(7, chain), []);
    const xs = [0, 1, 2, 3, 4, 5, 6].map((shape) => rectOf(geometry, shape).x);
    expect(new Set(xs.map(Math.round)).size).toBe(1);
    const bypass = new Set<number>();
    for (let link = 0; link < geometry.linkTensor.length; link += 1) {
      for (let p = at(geometry.linkStart, link); p < at(geometry.linkStart, link + 1); p += 1) {
        bypass.add(Math.round(at(geometry.points, 2 * p)));
      }
    }
    expect(bypass.size).toBe(2);
  });

  it("marks where arrows belong", () => {
    const geometry = new LayoutEngine().layout(flat(3, [[0, [1, 2]]], true), []);
    const flags = [...geometry.linkFlags];
    expect(flags.filter((f) => f & LinkFlag.Producer)).toHaveLength(1);
    expect(flags.filter((f) => f & LinkFlag.Reader)).toHaveLength(2);
    expect([...geometry.kind].filter((kind) => kind === ShapeKind.Badge)).toHaveLength(1);
  });
});

describe("ranks", () => {
  const spec = (kinds: number[], links: [number, number[]][]): FrameSpec => ({
    kinds,
    widths: kinds.map(() => 10),
    heights: kinds.map(() => 10),
    inner: kinds.map(() => null),
    links: links.map(([source, targets]) => ({
      source,
      sourcePort: -1,
      targets: targets.flatMap((target) => [target, -1]),
    })),
    headerWidth: 0,
    headerHeight: 0,
    pad: 0,
    row: false,
  });
  const { Box, Entry, Exit } = ItemKind;

  it("put every reader below what it reads", () => {
    const links: [number, number[]][] = [
      [0, [1, 3]],
      [1, [2]],
      [2, [3]],
    ];
    expect([...rankItems(spec([Box, Box, Box, Box], links))]).toEqual([0, 1, 2, 3]);
  });

  it("put a source right above its first reader", () => {
    const links: [number, number[]][] = [
      [0, [1]],
      [1, [2]],
      [3, [2]],
    ];
    expect([...rankItems(spec([Box, Box, Box, Box], links))]).toEqual([0, 1, 2, 1]);
  });

  it("put entries first and exits last", () => {
    const links: [number, number[]][] = [
      [1, [0]],
      [0, [2]],
    ];
    expect([...rankItems(spec([Box, Entry, Exit], links))]).toEqual([1, 0, 2]);
  });
});
