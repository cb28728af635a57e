/**
 * The graph canvas: a plain class, so that no framework stands between a pointer and a frame.
 *
 * It owns a model, which groups are open, and a selection; a scene follows from them through the layout's worker, and
 * everything on screen is painted from the scene.
 */

import { type Anchor, anchorOf, holding, viewAnchor } from "./anchor";
import { cachedMeasure, FONT, type Measure } from "./art";
import { describeShape } from "./describe";
import { exportPng, exportSvg } from "./exporting";
import { carryOpen, defaultOpen } from "./groups";
import { Hand } from "./hand";
import { LayoutClient, type LayoutWorker, startWorker } from "./layoutClient";
import { Minimap } from "./minimap";
import { type BadgeView, type Direction, find, type GraphModel } from "./model";
import { type Look, paintMarquee, paintScene } from "./paint";
import { type Rect, Scene } from "./scene";
import { makeStudio, type Studio } from "./studio";
import { DARK, LIGHT, type Theme } from "./theme";
import { Viewport } from "./viewport";

export interface GraphViewOptions {
  readonly dark?: boolean;
  readonly direction?: Direction;
  readonly colours?: Readonly<Record<string, string>>;
  readonly onSelect?: (id: string | null) => void;
  /** Operators were framed. */
  readonly onMark?: (ids: readonly string[]) => void;
  /** An edge was chosen; who makes its value is selected with it. */
  readonly onEdge?: (id: string) => void;
  /** A collective was double-clicked. */
  readonly onBadge?: (badge: BadgeView) => void;
  readonly onOpenChange?: (open: readonly string[]) => void;
  /** For tests; by default the browser's own. */
  readonly measure?: Measure;
  readonly worker?: LayoutWorker | null;
}

const LABEL =
  "Model graph. Arrow keys follow edges, Enter opens and closes groups, F fits, plus and minus zoom.";

export class GraphView {
  readonly canvas = document.createElement("canvas");
  readonly viewport = new Viewport(() => this.invalidate());
  /** Milliseconds of the last layout, from asking for it to its first paint, and of the last paint. */
  readonly timing = { layout: 0, turn: 0, paint: 0 };
  private readonly live = document.createElement("div");
  private readonly minimap: Minimap;
  private readonly client: LayoutClient;
  private readonly hand: Hand;
  private readonly observer = new ResizeObserver(() => this.resize());
  private measure: Measure;
  private model: GraphModel | null = null;
  private studio: Studio | null = null;
  private scene: Scene | null = null;
  private open = new Set<string>();
  private selected: string | null = null;
  /** Edge that stands out. */
  private lit: string | null = null;
  /** Several operators that are selected together. */
  private marked: readonly string[] = [];
  private direction: Direction;
  private theme: Theme;
  private colours: Readonly<Record<string, string>>;
  private pending = false;
  private frame = 0;
  /** A layout is under way. */
  private busy = false;
  private fresh = true;
  private afterLayout: (() => void)[] = [];
  private afterPaint: (() => void)[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly options: GraphViewOptions = {},
  ) {
    this.direction = options.direction ?? "forward";
    this.theme = options.dark ? DARK : LIGHT;
    this.colours = options.colours ?? {};
    this.measure = cachedMeasure(options.measure ?? browserMeasure());
    this.client = new LayoutClient(options.worker === undefined ? startWorker() : options.worker);
    host.classList.add("graph-view");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", LABEL);
    this.live.className = "graph-live";
    this.live.setAttribute("aria-live", "polite");
    host.append(this.canvas, this.live);
    this.minimap = new Minimap(host, (x, y) => this.viewport.lookAt(x, y));
    this.hand = new Hand(host, {
      canvas: this.canvas,
      viewport: this.viewport,
      scene: () => this.scene,
      selectedShape: () => this.selectedShape(),
      choose: (id) => this.choose(id),
      chooseEdge: (id) => this.chooseEdge(id),
      mark: (ids) => this.options.onMark?.(ids),
      openGroup: (id, state) => this.openGroup(id, state),
      openBadge: (badge) => this.options.onBadge?.(badge),
      changed: () => this.invalidate(),
    });
    this.observer.observe(host);
    this.resize();
    if (!options.measure) this.remeasureWithFont();
  }

  setModel(model: GraphModel): void {
    const before = this.model;
    const same = before !== null && before.name === model.name;
    this.open = same ? carryOpen(before, model, this.open) : defaultOpen(model);
    this.model = model;
    if (!same) this.fresh = true;
    if (this.selected && !find(model, this.selected)) this.selected = null;
    this.hand.forget();
    this.rebuild();
    this.options.onOpenChange?.([...this.open]);
  }

  setOpen(ids: Iterable<string>): void {
    this.changeOpen(new Set(ids), this.anchor());
  }

  opened(): readonly string[] {
    return [...this.open];
  }

  openGroup(id: string, state: boolean): void {
    const target = this.model ? find(this.model, id) : null;
    const group = target?.kind === "group" ? this.model?.groups[target.index] : undefined;
    if (!group || this.open.has(group.id) === state) return;
    const next = new Set(this.open);
    if (state) for (const around of [group.id, ...this.around(group.parent)]) next.add(around);
    else next.delete(group.id);
    const own = this.scene && anchorOf(this.scene, this.viewport, group.id, state);
    this.changeOpen(next, own ?? this.anchor());
  }

  /** Select from outside: what is hidden is shown by opening its groups; the listener isn't told. */
  select(id: string | null): void {
    if (id === this.selected) return;
    this.hand.forget();
    this.selected = id;
    if (id) this.show(id, (rect) => this.viewport.reveal(rect));
    this.announce();
    this.invalidate();
  }

  /** Let an edge stand out. */
  light(id: string | null): void {
    this.lit = id;
    this.invalidate();
  }

  /** Show several operators as selected. */
  mark(ids: readonly string[]): void {
    this.marked = ids;
    this.invalidate();
  }

  center(id: string): void {
    this.show(id, (rect) => this.viewport.center(rect));
  }

  fit(): void {
    this.viewport.fit();
  }

  /** Return where a node or group is, in CSS pixels of the page; null while it is hidden in a closed group. */
  screenOf(id: string): Rect | null {
    const shape = this.scene?.shapeOf(id) ?? -1;
    if (!this.scene || shape < 0) return null;
    const page = this.canvas.getBoundingClientRect();
    const { x, y, width, height } = this.viewport.toScreen(this.scene.rect(shape));
    return { x: page.left + x, y: page.top + y, width, height };
  }

  setDirection(direction: Direction): void {
    if (direction === this.direction) return;
    this.direction = direction;
    this.hand.forget();
    this.rebuild();
  }

  setTheme(dark: boolean): void {
    this.theme = dark ? DARK : LIGHT;
    this.invalidate();
  }

  setColours(colours: Readonly<Record<string, string>>): void {
    this.colours = colours;
    this.invalidate();
  }

  setPending(pending: boolean): void {
    this.pending = pending;
    this.invalidate();
  }

  toPng(scale = 2): string {
    return this.scene ? exportPng(this.scene, this.plainLook(), scale) : "";
  }

  toSvg(): string {
    return this.scene ? exportSvg(this.scene, this.plainLook(), this.measure) : "";
  }

  /** Resolve when no layout is under way and the last one is painted. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.afterPaint.push(resolve);
      this.invalidate();
    });
  }

  destroy(): void {
    this.hand.stop();
    this.observer.disconnect();
    this.viewport.stop();
    cancelAnimationFrame(this.frame);
    this.client.destroy();
    this.host.replaceChildren();
    this.host.classList.remove("graph-view");
  }

  /** Widths measured before the font arrived are wrong. */
  private remeasureWithFont(): void {
    const fonts = Object.values(FONT).map((font) => document.fonts?.load(font));
    Promise.all(fonts).then((loaded) => {
      if (!loaded.some((faces) => faces?.length)) return;
      this.measure = cachedMeasure(browserMeasure());
      this.rebuild();
    });
  }

  private rebuild(): void {
    if (!this.model) return;
    this.studio = makeStudio(this.model, this.direction, this.measure);
    this.relayout(this.anchor());
  }

  private changeOpen(open: Set<string>, anchor: Anchor | null): void {
    this.open = open;
    this.relayout(anchor);
    this.options.onOpenChange?.([...open]);
  }

  private relayout(anchor: Anchor | null): void {
    const { studio } = this;
    if (!studio) return;
    const start = performance.now();
    this.busy = true;
    const open = studio.model.groups.map((group) => this.open.has(group.id));
    this.client.request(studio.skeleton, open, (geometry, milliseconds) => {
      this.busy = false;
      this.scene = new Scene(studio, geometry);
      this.hand.forget();
      this.viewport.extent = { width: geometry.width, height: geometry.height };
      if (this.fresh && this.viewport.width > 0) {
        this.viewport.first();
        this.fresh = false;
      } else if (anchor) {
        this.viewport.camera = holding(this.scene, this.viewport, anchor);
      }
      for (const then of this.afterLayout.splice(0)) then();
      this.announce();
      this.paint();
      this.timing.layout = milliseconds;
      this.timing.turn = performance.now() - start;
    });
  }

  private anchor(): Anchor | null {
    return this.scene && viewAnchor(this.scene, this.viewport, this.selected);
  }

  /** Return the ids of a group and all groups around it. */
  private around(group: number): string[] {
    const ids: string[] = [];
    for (let own = this.model?.groups[group]; own; own = this.model?.groups[own.parent]) {
      ids.push(own.id);
    }
    return ids;
  }

  /** Open what hides an id, then move the camera to it. */
  private show(id: string, look: (rect: Rect) => void): void {
    const { model } = this;
    const target = model ? find(model, id) : null;
    if (!model || !target) return;
    const own = (target.kind === "box" ? model.boxes : model.groups)[target.index];
    const needed = this.around(own?.parent ?? -1);
    const move = () => {
      const shape = this.scene?.shown(target) ?? -1;
      if (this.scene && shape >= 0) look(this.scene.rect(shape));
    };
    if (this.scene && !this.busy && needed.every((group) => this.open.has(group))) {
      move();
      return;
    }
    this.afterLayout.push(move);
    this.changeOpen(new Set([...this.open, ...needed]), this.anchor());
  }

  private resize(): void {
    const { viewport, host } = this;
    if (host.clientWidth === viewport.width && host.clientHeight === viewport.height) return;
    viewport.width = host.clientWidth;
    viewport.height = host.clientHeight;
    if (this.fresh && this.scene && viewport.width > 0) {
      viewport.first();
      this.fresh = false;
    }
    this.invalidate();
  }

  private invalidate(): void {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const start = performance.now();
    const pen = this.canvas.getContext("2d");
    const { scene, viewport, theme } = this;
    const { camera, width, height } = viewport;
    const ratio = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    if (pen) {
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.fillStyle = theme.canvas;
      pen.fillRect(0, 0, w, h);
      const { zoom, x, y } = camera;
      pen.setTransform(zoom * ratio, 0, 0, zoom * ratio, x * ratio, y * ratio);
      if (scene) paintScene(pen, scene, camera, width, height, this.look());
    }
    if (pen && this.hand.frame) paintMarquee(pen, this.hand.frame, ratio, theme);
    if (scene) this.minimap.paint(scene, viewport, theme, ratio);
    this.timing.paint = performance.now() - start;
    if (!this.busy) for (const resolve of this.afterPaint.splice(0)) resolve();
  }

  private plainLook(): Look {
    const { theme, colours } = this;
    return {
      theme,
      colours,
      selected: -1,
      marked: new Set(),
      tensor: -1,
      hovered: -1,
      pending: false,
    };
  }

  private look(): Look {
    return {
      ...this.plainLook(),
      selected: this.selectedShape(),
      marked: new Set(this.marked.map((id) => this.scene?.shapeOf(id) ?? -1)),
      hovered: this.hand.hoveredShape(),
      tensor: this.litTensor(),
      pending: this.pending,
    };
  }

  /** The tensor under the pointer, else the one that was chosen. */
  private litTensor(): number {
    const hovered = this.hand.hoveredTensor();
    if (hovered >= 0 || this.lit === null) return hovered;
    return this.scene?.studio.model.tensors.findIndex((tensor) => tensor.id === this.lit) ?? -1;
  }

  private selectedShape(): number {
    return this.scene && this.selected ? this.scene.shapeOf(this.selected) : -1;
  }

  private chooseEdge(id: string): void {
    const tensor = this.model?.tensors.find((other) => other.id === id);
    const end = this.model?.boxes[tensor?.producer ?? -1];
    this.choose(end?.id ?? null);
    this.lit = id;
    this.options.onEdge?.(id);
  }

  private choose(id: string | null): void {
    this.selected = id;
    this.lit = null;
    this.announce();
    this.invalidate();
    this.options.onSelect?.(id);
  }

  private announce(): void {
    if (!this.scene) return;
    const text = describeShape(this.scene, this.selectedShape());
    if (this.live.textContent !== text) this.live.textContent = text;
  }
}

function browserMeasure(): Measure {
  const pen = document.createElement("canvas").getContext("2d");
  return (font, text) => {
    if (!pen) return text.length * 6.5;
    pen.font = font;
    return pen.measureText(text).width;
  };
}
