/** Plain data of the layout, as it travels to the worker and back. */

/** How a box or group looks to the layout: sizes in pixels at 1:1, whole numbers. */
export interface Skeleton {
  readonly groupParent: readonly number[];
  readonly groupRun: readonly boolean[];
  /** Width and height by turns: of the closed box, and of the header when open. */
  readonly groupClosed: readonly number[];
  readonly groupHeader: readonly number[];
  readonly boxParent: readonly number[];
  readonly boxSize: readonly number[];
  readonly stems: readonly Stem[];
}

/** A tensor on its way to readers that want it in one layout; a badge of no width is not drawn. */
export interface Stem {
  readonly tensor: number;
  /** Index of the delivery, or -1 for readers that need no collective. */
  readonly delivery: number;
  readonly width: number;
  readonly height: number;
  readonly producer: number;
  readonly readers: readonly number[];
}

export const ShapeKind = { Box: 0, Closed: 1, Frame: 2, Badge: 3 } as const;

export const LinkFlag = {
  /** The line ends at a reader, so an arrow forward belongs there. */
  Reader: 1,
  /** The line starts at the producer, so an arrow backward belongs there. */
  Producer: 2,
} as const;

/** Where everything is. Frames stand before what is inside them. */
export interface Geometry {
  readonly width: number;
  readonly height: number;
  readonly kind: Uint8Array;
  /** Index of a box, group or delivery, by kind. */
  readonly ref: Int32Array;
  readonly depth: Uint8Array;
  /** x, y, width, height by turns. */
  readonly rect: Float32Array;
  readonly linkTensor: Int32Array;
  readonly linkDelivery: Int32Array;
  readonly linkFlags: Uint8Array;
  /** Where the points of each link start, in points; one longer than the links. */
  readonly linkStart: Int32Array;
  readonly points: Float32Array;
  /** Frames laid out anew and taken from the cache. */
  readonly runs: number;
  readonly hits: number;
}

export const ItemKind = { Box: 0, Badge: 1, Entry: 2, Exit: 3 } as const;

/** A line inside a frame: one source and all its targets there. A port of -1 is the middle of a box. */
export interface FrameLink {
  readonly source: number;
  readonly sourcePort: number;
  /** Item and port by turns. */
  readonly targets: number[];
}

/** One level of the graph: what is laid out together. */
export interface FrameSpec {
  readonly kinds: number[];
  readonly widths: number[];
  readonly heights: number[];
  /** The layout inside an open group; null for all else. */
  readonly inner: (FrameLayout | null)[];
  readonly links: FrameLink[];
  readonly headerWidth: number;
  readonly headerHeight: number;
  readonly pad: number;
  /** Folded runs of one list of layers stand side by side. */
  readonly row: boolean;
}

export interface Route {
  readonly link: number;
  readonly flags: number;
  readonly points: readonly number[];
}

export interface FrameLayout {
  readonly id: number;
  readonly width: number;
  readonly height: number;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** x of each port on the upper and on the lower border. */
  readonly entries: readonly number[];
  readonly exits: readonly number[];
  readonly routes: readonly Route[];
}

/** Read an element that is known to be there; the checker can't know it of computed indices. */
export function at(values: ArrayLike<number>, index: number): number {
  return values[index] as number;
}
