// How the parts that ranks hold are arranged for drawing: which dims, which ranks side by side. The parts themselves
// are the server's.

/** `start, stop` of one dim. */
export type Range = readonly [number, number];
export type Box = readonly Range[];
export type Mesh = readonly (readonly [string, number])[];

export interface Drawn {
  /** At most three dims, which span the picture: depth, height and width, or the last ones of these. */
  span: readonly number[];
  /** Further dims that are cut: a strip each. */
  strips: readonly number[];
}

const MOST_SPANNED = 3;
const MOST_COLUMNS = 16;
/** How many times more or fewer columns than wished for are still better than rows that follow no axis. */
const FARTHEST = 4;

/** Which dims a picture of these parts shows: all of a vector or matrix, else those that are cut somewhere. */
export function drawnDims(shape: readonly number[], states: readonly (readonly Box[])[]): Drawn {
  const all = shape.map((_, dim) => dim);
  if (shape.length <= 2) return { span: all, strips: [] };
  const cut = all.filter((dim) =>
    states.some((parts) =>
      parts.some((part) => {
        const [start, stop] = part[dim] ?? [0, 0];
        return start !== 0 || stop !== shape[dim];
      }),
    ),
  );
  if (cut.length >= 2) {
    return { span: cut.slice(0, MOST_SPANNED), strips: cut.slice(MOST_SPANNED) };
  }
  // The last dims make up what is lacking to a rectangle.
  const others = all.filter((dim) => !cut.includes(dim)).slice(cut.length - 2);
  return { span: [...cut, ...others].sort((a, b) => a - b), strips: [] };
}

/** Where a range begins and how long it is, as fractions of a dim. */
export function fraction([start, stop]: Range, size: number): [number, number] {
  return size === 0 ? [0, 0] : [start / size, (stop - start) / size];
}

/** Coordinates of a rank on a mesh: row-major, the last axis connects neighbours. */
export function coordinates(rank: number, mesh: Mesh): number[] {
  const found: number[] = [];
  let left = rank;
  for (const [, size] of [...mesh].reverse()) {
    found.unshift(left % size);
    left = Math.floor(left / size);
  }
  return found;
}

/** How many of the last axes run from left to right, so that ranks make a grid that is a little wider than high; 0 if none fit. */
export function acrossAxes(mesh: Mesh): number {
  const ranks = mesh.reduce((product, [, size]) => product * size, 1);
  const wanted = Math.log(Math.sqrt(1.6 * ranks));
  let [best, least, columns] = [0, Math.log(FARTHEST), 1];
  for (let count = 1; count <= mesh.length; count += 1) {
    columns *= mesh.at(-count)?.[1] ?? 1;
    const off = Math.abs(Math.log(columns) - wanted);
    if (columns <= MOST_COLUMNS && off < least) [best, least] = [count, off];
  }
  return best;
}

/** How many ranks stand side by side. */
export function columnsOf(mesh: Mesh): number {
  const count = acrossAxes(mesh);
  if (count === 0) return 8;
  return mesh.slice(mesh.length - count).reduce((product, [, size]) => product * size, 1);
}

/** What two parts have in common; null if nothing. */
export function overlap(one: Box, other: Box): Box | null {
  const found = one.map(([start, stop], dim): Range => {
    const [low, high] = other[dim] ?? [0, 0];
    return [Math.max(start, low), Math.min(stop, high)];
  });
  return found.every(([start, stop]) => start < stop) ? found : null;
}

export function isEmpty(part: Box): boolean {
  return part.some(([start, stop]) => start >= stop);
}

/** A part as on the command line: `[0:4, 8:16]`. */
export function partText(part: Box): string {
  return isEmpty(part)
    ? "nothing"
    : `[${part.map(([start, stop]) => `${start}:${stop}`).join(", ")}]`;
}
