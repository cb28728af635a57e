// A box of three dims drawn slantwise: dim by dim depth, height and width, seen from the front, above and the right.

export type Fraction = readonly [start: number, extent: number];
export type Solid = readonly [depth: Fraction, height: Fraction, width: Fraction];
type Point = readonly [x: number, y: number];

const FRONT = 68;
const SLANT = { x: 30, y: 26 };
export const SOLID_SIZE = { width: FRONT + SLANT.x + 2, height: FRONT + SLANT.y + 2 };
export const WHOLE: Solid = [
  [0, 1],
  [0, 1],
  [0, 1],
];

function point(depth: number, height: number, width: number): Point {
  return [1 + width * FRONT + depth * SLANT.x, 1 + (1 - depth) * SLANT.y + height * FRONT];
}

/** The three faces that are seen, as the points of polygons. */
export function faces([[z, dz], [y, dy], [x, dx]]: Solid): {
  front: string;
  top: string;
  side: string;
} {
  const [near, far, up, down, left, right] = [z, z + dz, y, y + dy, x, x + dx];
  return {
    front: polygon([near, up, left], [near, up, right], [near, down, right], [near, down, left]),
    top: polygon([near, up, left], [near, up, right], [far, up, right], [far, up, left]),
    side: polygon([near, up, right], [far, up, right], [far, down, right], [near, down, right]),
  };
}

/** The edges behind the faces, which show where a box stands in the whole. */
export function hiddenEdges([[z, dz], [y, dy], [x, dx]]: Solid): string {
  const corner: [number, number, number] = [z + dz, y + dy, x];
  const ends: [number, number, number][] = [
    [z, y + dy, x],
    [z + dz, y, x],
    [z + dz, y + dy, x + dx],
  ];
  return ends.map((end) => `M${point(...corner).join()}L${point(...end).join()}`).join("");
}

function polygon(...corners: [number, number, number][]): string {
  return corners.map((corner) => point(...corner).join()).join(" ");
}

/** Whether one box is to be painted before another that has nothing in common with it: it lies behind, below or left. */
export function behind(one: Solid, other: Solid): number {
  const [z, y, x] = [0, 1, 2].map((dim) => {
    const [start, extent] = one[dim] ?? [0, 0];
    const [otherStart, otherExtent] = other[dim] ?? [0, 0];
    if (start >= otherStart + otherExtent) return 1;
    return otherStart >= start + extent ? -1 : 0;
  }) as [number, number, number];
  return -z || -y || x;
}
