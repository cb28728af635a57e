import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import { fromPlanView } from "./adapter";
import { ZOOM } from "./camera";
import { GraphView } from "./GraphView";
import "./graph.css";
import type { BadgeView, Direction, PlanView } from "./model";
import type { Rect } from "./scene";

export type Box = Rect;

export interface GraphHandle {
  fit(): void;
  zoomTo(zoom: number): void;
  center(id: string): void;
  /** Where a node is on screen, in CSS pixels of the page; null when it is hidden in a closed group. */
  screenOf(id: string): Box | null;
  open(id: string): void;
  close(id: string): void;
  /** The whole graph as a picture: a data address of a PNG, or the text of an SVG. */
  png(): string;
  svg(): string;
  /** Resolves when what was asked for is laid out and painted. */
  settled(): Promise<void>;
}

declare global {
  interface Window {
    /** The handle of the canvas on the page, for end-to-end tests: they click real pixels. */
    __graph?: GraphHandle & { view: GraphView };
  }
}

export interface GraphCanvasProps {
  view: PlanView;
  axisColours: Record<string, string>;
  selected: string | null;
  /** Id of an edge that stands out. */
  edge?: string | null;
  marked: readonly string[];
  direction: Direction;
  dark: boolean;
  pending: boolean;
  onSelect(id: string | null): void;
  onMark?(ids: readonly string[]): void;
  /** An edge was chosen, and with it who makes its value. */
  onEdge?(id: string): void;
  onBadge?(badge: BadgeView): void;
  onOpenChange?(open: readonly string[]): void;
  ref?: Ref<GraphHandle>;
}

/** Mounts the canvas and passes changes on; everything else is in `GraphView`. */
export function GraphCanvas(props: GraphCanvasProps) {
  const { view, axisColours, selected, edge, marked, direction, dark, pending, ref } = props;
  const host = useRef<HTMLDivElement>(null);
  const graph = useRef<GraphView | null>(null);
  // The canvas outlives renders, so it calls whatever the newest props say.
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    if (!host.current) return;
    const { dark, direction, axisColours: colours } = latest.current;
    const made = new GraphView(host.current, {
      dark,
      direction,
      colours,
      onSelect: (id) => latest.current.onSelect(id),
      onMark: (ids) => latest.current.onMark?.(ids),
      onEdge: (id) => latest.current.onEdge?.(id),
      onBadge: (badge) => latest.current.onBadge?.(badge),
      onOpenChange: (open) => latest.current.onOpenChange?.(open),
    });
    graph.current = made;
    window.__graph = { ...handleOf(graph), view: made };
    return () => {
      made.destroy();
      graph.current = null;
      delete window.__graph;
    };
  }, []);
  useEffect(() => graph.current?.setTheme(dark), [dark]);
  useEffect(() => graph.current?.setColours(axisColours), [axisColours]);
  useEffect(() => graph.current?.setDirection(direction), [direction]);
  useEffect(() => graph.current?.setPending(pending), [pending]);
  useEffect(() => graph.current?.setModel(fromPlanView(view)), [view]);
  useEffect(() => graph.current?.select(selected), [selected]);
  useEffect(() => graph.current?.light(edge ?? null), [edge]);
  useEffect(() => graph.current?.mark(marked), [marked]);
  useImperativeHandle(ref, () => handleOf(graph), []);

  return (
    <div className="graph-shell" data-dark={dark}>
      <div ref={host} data-testid="graph" />
      {view.nodes.length === 0 && (
        <div className="graph-empty">
          <b>No operators</b>
          <span>The model of this plan has nothing to draw. Choose another model.</span>
        </div>
      )}
      <div className="graph-buttons" role="toolbar" aria-label="Zoom">
        <GlyphButton
          label="Zoom in"
          onClick={() => graph.current?.viewport.zoomBy(ZOOM.step)}
          path="M8 3v10M3 8h10"
        />
        <GlyphButton
          label="Zoom out"
          onClick={() => graph.current?.viewport.zoomBy(1 / ZOOM.step)}
          path="M3 8h10"
        />
        <GlyphButton
          label="Fit the graph"
          onClick={() => graph.current?.fit()}
          path="M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3"
        />
      </div>
    </div>
  );
}

function GlyphButton({ label, path, onClick }: { label: string; path: string; onClick(): void }) {
  return (
    <button type="button" aria-label={label} title={label} onClick={onClick}>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <path d={path} fill="none" stroke="currentColor" strokeWidth="1.5" />
      </svg>
    </button>
  );
}

function handleOf(graph: { readonly current: GraphView | null }): GraphHandle {
  return {
    fit: () => graph.current?.fit(),
    zoomTo: (zoom) => graph.current?.viewport.zoomTo(zoom),
    center: (id) => graph.current?.center(id),
    screenOf: (id) => graph.current?.screenOf(id) ?? null,
    open: (id) => graph.current?.openGroup(id, true),
    close: (id) => graph.current?.openGroup(id, false),
    png: () => graph.current?.toPng() ?? "",
    svg: () => graph.current?.toSvg() ?? "",
    settled: () => graph.current?.settled() ?? Promise.resolve(),
  };
}
