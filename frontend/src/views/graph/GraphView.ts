/**
 * The graph canvas: a plain class, so that no framework stands between a pointer and a frame.
 *
 * It owns a model, which groups are open, a camera and a selection; a scene follows from them through the layout's
 * worker. Everything on screen is painted from the scene.
 */

import { cachedMeasure, type Measure } from "./art";
import {
  type Camera,
  clampZoom,
  fitted,
  kept,
  revealed,
  ZOOM,
  zoomAt,
} from "./camera";
import { describeShape, tipLines } from "./describe";
import { exportPng, exportSvg } from "./exporting";
import { carryOpen, defaultOpen } from "./groups";
import { type Actions, listen } from "./input";
import { LayoutClient, type LayoutWorker, startWorker } from "./layoutClient";
import { at, ShapeKind } from "./layout/types";
import { Minimap } from "./minimap";
import { type Direction, find, type GraphModel } from "./model";
import { step, type Way } from "./navigate";
import { type Look, paintScene } from "./paint";
import { type Hit, type Rect, Scene } from "./scene";
import { makeStudio, type Studio } from "./studio";
import { DARK, LIGHT, type Theme } from "./theme";

export interface GraphViewOptions {
  readonly dark?: boolean;
  readonly direction?: Direction;
  readonly colours?: Readonly<Record<string, string>>;
  readonly onSelect?: (id: string | null) => void;
  readonly onOpenChange?: (open: readonly string[]) => void;
  /** For tests; by default the browser's own. */
  readonly measure?: Measure;
  readonly worker?: LayoutWorker | null;
}

/** A place of the scene that stays where it is on screen through a new layout. */
interface Anchor {
  readonly id: string;
  readonly x: number;
  readonly y: number;
}

const WAYS: Record<string, Way> = {
  ArrowUp: "producer",
  ArrowDown: "reader",
  ArrowLeft: "left",
  ArrowRight: "right",
};

export class GraphView {
  readonly canvas = document.createElement("canvas");
  /** Milliseconds of the last layout, of the way from request to paint, and of the last paint. */
  readonly timing = { layout: 0, turn: 0, paint: 0 };
  private readonly live = document.createElement("div");
  private readonly tip = document.createElement("div");
  private readonly minimap: Minimap;
  private readonly client: LayoutClient;
  private readonly measure: Measure;
  private readonly stop: (() => void)[] = [];
  private model: GraphModel | null = null;
  private studio: Studio | null = null;
  private scene: Scene | null = null;
  private open = new Set<string>();
  private camera: Camera = { zoom: 1, x: 0, y: 0 };
  private width = 0;
  private height = 0;
  private selected: string | null = null;
  private hovered: Hit | null = null;
  private pinned = -1;
  private direction: Direction;
  private theme: Theme;
  private colours: Readonly<Record<string, string>>;
  private pending = false;
  private frame = 0;
  private flight = 0;
  private mustFit = true;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly options: GraphViewOptions = {},
  ) {
    this.direction = options.direction ?? "forward";
    this.theme = options.dark ? DARK : LIGHT;
    this.colours = options.colours ?? {};
    this.measure = cachedMeasure(options.measure ?? this.browserMeasure());
    this.client = new LayoutClient(options.worker === undefined ? startWorker() : options.worker);
    host.classList.add("graph-view");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "graph");
    this.canvas.setAttribute(
      "aria-label",
      "Model graph. Arrow keys follow edges, Enter opens and closes groups, F fits, plus and minus zoom.",
    );
    this.live.className = "graph-live";
    this.live.setAttribute("aria-live", "polite");
    this.tip.className = "graph-tip";
    this.tip.hidden = true;
    host.append(this.canvas, this.live, this.tip);
    this.minimap = new Minimap(host, (x, y) => this.lookAt(x, y));
    this.stop.push(listen(this.canvas, this.actions()));
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(host);
    this.stop.push(() => observer.disconnect());
    this.resize();
    // Widths measured before the font arrived are wrong.
    document.fonts?.ready.then(() => this.remeasure());
  }

  setModel(model: GraphModel): void {
    const before = this.model;
    const same = before !== null && before.name === model.name;
    this.open = same ? carryOpen(before, model, this.open) : defaultOpen(model);
    this.model = model;
    if (!same) this.mustFit = true;
    if (this.selected && !find(model, this.selected)) this.selected = null;
    this.pinned = -1;
    this.rebuild();
    this.options.onOpenChange?.([...this.open]);
  }

  setOpen(ids: Iterable<string>): void {
    this.changeOpen(new Set(ids), this.viewAnchor());
  }

  opened(): readonly string[] {
    return [...this.open];
  }

  openGroup(id: string, state: boolean): void {
    const target = this.model ? find(this.model, id) : null;
    const group = target?.kind === "group" ? this.model?.groups[target.index] : undefined;
    if (!group || this.open.has(group.id) === state) return;
    const next = new Set(this.open);
    if (state) {
      next.add(group.id);
      for (const around of this.around(target?.index ?? -1)) next.add(around);
    } else next.delete(group.id);
    this.changeOpen(next, this.anchorOf(group.id));
  }

  /** Select from outside: what is hidden is shown by opening its groups; the listener isn't told. */
  select(id: string | null): void {
    this.pinned = -1;
    if (id === this.selected) return;
    this.selected = id;
    if (id) this.show(id, (rect) => revealed(this.camera, rect, this.width, this.height));
    this.announce();
    this.invalidate();
  }

  center(id: string): void {
    this.show(id, (rect) => {
      const zoom = Math.max(this.camera.zoom, 0.6);
      return {
        zoom,
        x: this.width / 2 - (rect.x + rect.width / 2) * zoom,
        y: this.height / 2 - (rect.y + Math.min(rect.height, this.height / zoom) / 2) * zoom,
      };
    });
  }

  fit(): void {
    if (this.scene) this.fly(fitted(this.bounds(), this.width, this.height));
  }

  zoomBy(factor: number): void {
    this.fly(zoomAt(this.camera, this.camera.zoom * factor, this.width / 2, this.height / 2));
  }

  zoomTo(zoom: number): void {
    this.fly(zoomAt(this.camera, clampZoom(zoom), this.width / 2, this.height / 2));
  }

  /** Return where a node or group is, in CSS pixels of the page; null while it is hidden in a closed group. */
  screenOf(id: string): Rect | null {
    const shape = this.scene?.shapeOf(id) ?? -1;
    if (!this.scene || shape < 0) return null;
    const rect = this.scene.rect(shape);
    const page = this.canvas.getBoundingClientRect();
    const { zoom, x, y } = this.camera;
    return {
      x: page.left + rect.x * zoom + x,
      y: page.top + rect.y * zoom + y,
      width: rect.width * zoom,
      height: rect.height * zoom,
    };
  }

  setDirection(direction: Direction): void {
    if (direction === this.direction) return;
    this.direction = direction;
    this.pinned = -1;
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
    return this.scene ? exportSvg(this.scene, this.plainLook()) : "";
  }

  /** Resolve when no layout is under way and the last one is painted. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.invalidate();
    });
  }

  destroy(): void {
    for (const stop of this.stop) stop();
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.flight);
    this.client.destroy();
    this.host.replaceChildren();
    this.host.classList.remove("graph-view");
  }

  // Layout

  private remeasure(): void {
    if (this.model && !this.options.measure) this.rebuild();
  }

  private rebuild(): void {
    if (!this.model) return;
    this.studio = makeStudio(this.model, this.direction, this.measure);
    this.relayout(this.viewAnchor());
  }

  private changeOpen(open: Set<string>, anchor: Anchor | null): void {
    this.open = open;
    this.relayout(anchor);
    this.options.onOpenChange?.([...open]);
  }

  private busy = false;

  private relayout(anchor: Anchor | null): void {
    const { studio } = this;
    if (!studio) return;
    const start = performance.now();
    this.busy = true;
    const open = studio.model.groups.map((group) => this.open.has(group.id));
    this.client.request(studio.skeleton, open, (geometry, milliseconds) => {
      this.busy = false;
      this.scene = new Scene(studio, geometry);
      this.hovered = null;
      this.timing.layout = milliseconds;
      if (this.mustFit && this.width > 0) {
        this.camera = this.firstLook();
        this.mustFit = false;
      } else if (anchor) this.hold(anchor);
      for (const then of this.afterLayout.splice(0)) then();
      this.announce();
      this.paint();
      this.timing.turn = performance.now() - start;
    });
  }

  private afterLayout: (() => void)[] = [];

  /** At first sight the whole graph, unless that were unreadable: then its top. */
  private firstLook(): Camera {
    const whole = fitted(this.bounds(), this.width, this.height);
    if (whole.zoom >= 0.6) return whole;
    const { width } = this.bounds();
    const zoom = Math.min(1, Math.max(0.6, (this.width - 48) / Math.max(1, width)));
    return { zoom, x: (this.width - width * zoom) / 2, y: 24 };
  }

  private hold(anchor: Anchor): void {
    const target = this.model ? find(this.model, anchor.id) : null;
    const shape = target ? (this.scene?.shown(target) ?? -1) : -1;
    if (!this.scene || shape < 0) return;
    const rect = this.scene.rect(shape);
    const { zoom } = this.camera;
    this.camera = { zoom, x: anchor.x - rect.x * zoom, y: anchor.y - rect.y * zoom };
  }

  private anchorOf(id: string): Anchor | null {
    const shape = this.scene?.shapeOf(id) ?? -1;
    if (!this.scene || shape < 0) return this.viewAnchor();
    const rect = this.scene.rect(shape);
    const { zoom, x, y } = this.camera;
    return { id, x: rect.x * zoom + x, y: rect.y * zoom + y };
  }

  /** Hold what is selected, if it is in view, else the box nearest to the middle. */
  private viewAnchor(): Anchor | null {
    const { scene, camera } = this;
    if (!scene) return null;
    const inView = (rect: Rect) => {
      const [x, y] = [rect.x * camera.zoom + camera.x, rect.y * camera.zoom + camera.y];
      return x > -rect.width && x < this.width && y > -20 && y < this.height;
    };
    const own = this.selected ? scene.shapeOf(this.selected) : -1;
    if (this.selected && own >= 0 && inView(scene.rect(own))) return this.anchorOf(this.selected);
    const top = -camera.y / camera.zoom;
    const middle = { x: (this.width / 2 - camera.x) / camera.zoom, y: top + this.height / 2 / camera.zoom };
    let [best, nearest] = [-1, Number.POSITIVE_INFINITY];
    for (const shape of scene.shapesWithin(top, top + this.height / camera.zoom)) {
      const kind = scene.geometry.kind[shape];
      if (kind === ShapeKind.Badge || kind === ShapeKind.Frame) continue;
      const rect = scene.rect(shape);
      const away = Math.hypot(rect.x + rect.width / 2 - middle.x, rect.y + rect.height / 2 - middle.y);
      if (away < nearest) [best, nearest] = [shape, away];
    }
    return best < 0 ? null : this.anchorOf(scene.idOf(best));
  }

  private around(group: number): string[] {
    const ids: string[] = [];
    for (let g = this.model?.groups[group]?.parent ?? -1; g >= 0; ) {
      const parent = this.model?.groups[g];
      if (!parent) break;
      ids.push(parent.id);
      g = parent.parent;
    }
    return ids;
  }

  /** Open what hides an id, then move the camera to it. */
  private show(id: string, camera: (rect: Rect) => Camera): void {
    const { model } = this;
    const target = model ? find(model, id) : null;
    if (!model || !target) return;
    const own = target.kind === "box" ? model.boxes[target.index] : model.groups[target.index];
    const parent = own?.parent ?? -1;
    const needed = parent < 0 ? [] : [model.groups[parent]?.id ?? "", ...this.around(parent)];
    const move = () => {
      const shape = this.scene?.shown(target) ?? -1;
      if (this.scene && shape >= 0) this.fly(camera(this.scene.rect(shape)));
    };
    if (needed.every((group) => this.open.has(group)) && this.scene && !this.busy) {
      move();
      return;
    }
    this.afterLayout.push(move);
    this.changeOpen(new Set([...this.open, ...needed]), this.viewAnchor());
  }

  // Window

  private resize(): void {
    const [width, height] = [this.host.clientWidth, this.host.clientHeight];
    if (width === this.width && height === this.height) return;
    const first = this.width === 0;
    this.width = width;
    this.height = height;
    if (first && this.scene && width > 0) {
      this.camera = this.firstLook();
      this.mustFit = false;
    }
    this.invalidate();
  }

  private bounds(): Rect {
    const { width = 0, height = 0 } = this.scene?.geometry ?? {};
    return { x: 0, y: 0, width, height };
  }

  private lookAt(x: number, y: number): void {
    const { zoom } = this.camera;
    this.move({ zoom, x: this.width / 2 - x * zoom, y: this.height / 2 - y * zoom });
  }

  private move(camera: Camera): void {
    cancelAnimationFrame(this.flight);
    this.camera = kept(camera, this.bounds(), this.width, this.height);
    this.invalidate();
  }

  /** Glide to a camera, or jump for people who asked for less motion. */
  private fly(to: Camera): void {
    cancelAnimationFrame(this.flight);
    if (globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches !== false) {
      this.camera = to;
      this.invalidate();
      return;
    }
    const from = this.camera;
    const start = performance.now();
    const tick = () => {
      const t = Math.min(1, (performance.now() - start) / 160);
      const s = 1 - (1 - t) ** 3;
      const zoom = from.zoom * (to.zoom / from.zoom) ** s;
      // The offset follows the zoom, so that the way looks straight.
      const share = Math.abs(to.zoom - from.zoom) < 1e-6 ? s : (zoom - from.zoom) / (to.zoom - from.zoom);
      this.camera = { zoom, x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
      this.invalidate();
      if (t < 1) this.flight = requestAnimationFrame(tick);
    };
    tick();
  }

  // Painting

  private invalidate(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const pen = this.canvas.getContext("2d");
    const start = performance.now();
    const ratio = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    if (pen) {
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.fillStyle = this.theme.canvas;
      pen.fillRect(0, 0, w, h);
      if (this.scene) {
        const { zoom, x, y } = this.camera;
        pen.setTransform(zoom * ratio, 0, 0, zoom * ratio, x * ratio, y * ratio);
        paintScene(pen, this.scene, this.camera, this.width, this.height, this.look());
        this.minimap.paint(this.scene, this.camera, this.width, this.height, this.theme, ratio);
      }
    }
    this.timing.paint = performance.now() - start;
    if (!this.busy) for (const resolve of this.waiting.splice(0)) resolve();
  }

  private plainLook(): Look {
    const { theme, colours } = this;
    return { theme, colours, selected: -1, tensor: -1, hovered: -1, pending: false };
  }

  private look(): Look {
    const { scene, hovered } = this;
    const selected = scene && this.selected ? scene.shapeOf(this.selected) : -1;
    const solid = hovered?.kind === "box" || hovered?.kind === "group" ? hovered.shape : -1;
    return {
      ...this.plainLook(),
      selected,
      hovered: solid,
      tensor: this.tensorOf(hovered) ?? this.pinned,
      pending: this.pending,
    };
  }

  /** Return the tensor whose fan-out a hit stands for: that of the badge or line, or what the box makes. */
  private tensorOf(hit: Hit | null): number | null {
    if (!hit || !this.scene) return null;
    if (hit.kind === "link") return hit.tensor;
    const ref = at(this.scene.geometry.ref, hit.shape);
    const { model } = this.scene.studio;
    if (hit.kind === "badge") return model.deliveries[ref]?.tensor ?? null;
    if (hit.kind !== "box") return null;
    const made = model.tensors.findIndex((tensor) => tensor.producer === ref);
    return made < 0 ? null : made;
  }

  private browserMeasure(): Measure {
    const pen = document.createElement("canvas").getContext("2d");
    return (font, text) => {
      if (!pen) return text.length * 6.5;
      pen.font = font;
      return pen.measureText(text).width;
    };
  }

  private announce(): void {
    if (!this.scene) return;
    const shape = this.selected ? this.scene.shapeOf(this.selected) : -1;
    const text = describeShape(this.scene, shape);
    if (this.live.textContent !== text) this.live.textContent = text;
  }

  // Acting

  private choose(id: string | null): void {
    this.selected = id;
    this.announce();
    this.invalidate();
    this.options.onSelect?.(id);
  }

  private hitAt(x: number, y: number): Hit | null {
    const { zoom } = this.camera;
    return this.scene?.hit((x - this.camera.x) / zoom, (y - this.camera.y) / zoom, 5 / zoom) ?? null;
  }

  private actions(): Actions {
    return {
      pan: (dx, dy) => this.move({ ...this.camera, x: this.camera.x + dx, y: this.camera.y + dy }),
      zoom: (factor, x, y) => this.move(zoomAt(this.camera, this.camera.zoom * factor, x, y)),
      hover: (point) => this.hover(point),
      click: (x, y) => this.click(this.hitAt(x, y)),
      doubleClick: (x, y) => {
        const hit = this.hitAt(x, y);
        if (hit?.kind === "group" && !hit.chevron) this.toggle(hit.shape);
      },
      key: (event) => this.key(event),
    };
  }

  private toggle(shape: number): void {
    const id = this.scene?.idOf(shape);
    if (id) this.openGroup(id, !this.open.has(id));
  }

  private click(hit: Hit | null): void {
    const { scene } = this;
    this.pinned = -1;
    if (!scene || !hit) {
      this.choose(null);
    } else if (hit.kind === "group" && hit.chevron) {
      this.toggle(hit.shape);
    } else if (hit.kind === "group" || hit.kind === "box") {
      this.choose(scene.idOf(hit.shape));
    } else {
      // A tensor is chosen by who makes it; its fan-out stays lit.
      this.pinned = this.tensorOf(hit) ?? -1;
      const producer = scene.studio.model.tensors[this.pinned]?.producer ?? -1;
      this.choose(scene.studio.model.boxes[producer]?.id ?? null);
    }
  }

  private hover(point: { x: number; y: number } | null): void {
    const hit = point ? this.hitAt(point.x, point.y) : null;
    this.hovered = hit;
    this.canvas.style.cursor = hit ? "pointer" : "";
    const lines = hit && this.scene ? tipLines(this.scene, hit) : [];
    this.tip.hidden = lines.length === 0;
    if (point && lines.length) {
      this.tip.replaceChildren(
        ...lines.map((line) => {
          const row = document.createElement("div");
          row.textContent = line;
          return row;
        }),
      );
      const left = Math.min(point.x + 14, this.width - this.tip.offsetWidth - 8);
      const below = point.y + 18 + this.tip.offsetHeight < this.height;
      const top = below ? point.y + 18 : point.y - this.tip.offsetHeight - 10;
      this.tip.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
    }
    this.invalidate();
  }

  private key(event: KeyboardEvent): boolean {
    const { key } = event;
    const way = WAYS[key];
    if (way && this.scene) {
      const from = this.selected ? this.scene.shapeOf(this.selected) : -1;
      const to = step(this.scene, from, way);
      if (to >= 0) {
        this.pinned = -1;
        this.choose(this.scene.idOf(to));
        this.fly(revealed(this.camera, this.scene.rect(to), this.width, this.height));
      }
    } else if (key === "Enter" || key === " ") {
      const shape = this.scene && this.selected ? this.scene.shapeOf(this.selected) : -1;
      if (shape >= 0 && this.scene?.geometry.kind[shape] !== ShapeKind.Box) this.toggle(shape);
    } else if (key === "f" || key === "F") this.fit();
    else if (key === "0") this.zoomTo(1);
    else if (key === "+" || key === "=") this.zoomBy(ZOOM.step);
    else if (key === "-" || key === "_") this.zoomBy(1 / ZOOM.step);
    else if (key === "Escape") this.click(null);
    else return false;
    return true;
  }
}
