import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fromPlanView } from "./adapter";
import { fitted, kept, revealed, zoomAt } from "./camera";
import runs from "./fixtures/llama-8b-runs.json";
import large from "./fixtures/llama-405b.json";
import { cellLetter, formatBytes, formatSeconds, kindMark, partialMark } from "./format";
import { GraphView } from "./GraphView";
import type { Geometry, Skeleton } from "./layout/types";
import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import { LayoutClient, type LayoutWorker } from "./layoutClient";
import { detailAt } from "./paint";
import { axisColour, LIGHT, luminance, textOn } from "./theme";

const LAYER = "model.layers.0-125:model.layers.*";
const measure = (_: string, text: string) => text.length * 6.2;

let host: HTMLElement;
let view: GraphView;
const chosen = vi.fn();
const opened = vi.fn();
const framed = vi.fn();

beforeEach(() => {
  host = document.createElement("div");
  Object.defineProperty(host, "clientWidth", { value: 900 });
  Object.defineProperty(host, "clientHeight", { value: 700 });
  document.body.append(host);
  // Without gliding the camera is there at once.
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
  chosen.mockClear();
  opened.mockClear();
  framed.mockClear();
  view = new GraphView(host, {
    measure,
    worker: null,
    onSelect: chosen,
    onOpenChange: opened,
    onMark: framed,
  });
  view.setModel(fromPlanView(large));
});
afterEach(() => {
  view.destroy();
  host.remove();
  vi.unstubAllGlobals();
});

function rect(id: string) {
  const found = view.screenOf(id);
  if (!found) throw new Error(`${id} is hidden`);
  return found;
}
function press(key: string) {
  view.canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}
function click(x: number, y: number) {
  const place = { clientX: x, clientY: y, pointerId: 1, button: 0, bubbles: true };
  view.canvas.dispatchEvent(new PointerEvent("pointerdown", place));
  view.canvas.dispatchEvent(new PointerEvent("pointerup", place));
}
function clickOn(id: string) {
  const { x, y, width, height } = rect(id);
  click(x + width / 2, y + height / 2);
}

describe("first sight", () => {
  it("shows the model open and its layers folded, fitted at most at 1:1", () => {
    expect(view.opened()).toContain(":model");
    expect(view.screenOf(`${LAYER}.self_attn.q_proj`)).toBeNull();
    const layers = rect(LAYER);
    expect(layers.x).toBeGreaterThan(0);
    expect(layers.y + layers.height).toBeLessThan(700);
    expect(view.viewport.camera.zoom).toBeLessThanOrEqual(1);
  });
});

describe("a frame drawn with Shift", () => {
  function drag(from: [number, number], to: [number, number], shiftKey = true) {
    const send = (type: string, [x, y]: [number, number]) =>
      view.canvas.dispatchEvent(
        new PointerEvent(type, {
          clientX: x,
          clientY: y,
          pointerId: 1,
          button: 0,
          shiftKey,
          bubbles: true,
        }),
      );
    send("pointerdown", from);
    send("pointermove", to);
    send("pointerup", to);
  }

  it("marks the operators that it touches, and no groups or inputs", () => {
    const before = view.viewport.camera;
    drag([1, 1], [899, 699]);
    expect(framed).toHaveBeenCalledTimes(1);
    const [ids] = framed.mock.calls[0] ?? [[]];
    expect(ids).toContain(":lm_head");
    expect(ids).not.toContain(LAYER);
    expect(ids.every((id: string) => !id.startsWith("port:"))).toBe(true);
    expect(view.viewport.camera).toEqual(before);
    expect(chosen).not.toHaveBeenCalled();
  });

  it("is as large as it is drawn, from any corner", () => {
    const { x, y, width, height } = rect(":lm_head");
    drag([x + width + 2, y + height + 2], [x + width - 4, y + height - 4]);
    expect(framed).toHaveBeenLastCalledWith([":lm_head"]);
  });

  it("is a pan without Shift, and a click where nothing is drawn", () => {
    drag([10, 10], [60, 60], false);
    const { x, y } = rect(":lm_head");
    drag([x + 5, y + 5], [x + 5, y + 5]);
    expect(framed).not.toHaveBeenCalled();
    expect(chosen).toHaveBeenCalledWith(":lm_head");
  });
});

describe("screenOf", () => {
  it("follows the camera", () => {
    const before = rect(":lm_head");
    view.viewport.pan(30, -20);
    const after = rect(":lm_head");
    expect([after.x - before.x, after.y - before.y]).toEqual([30, -20]);
  });

  it("knows a folded list of layers by its own id too", () => {
    expect(view.screenOf(":model.layers")).toEqual(rect(LAYER));
    expect(view.screenOf("nothing")).toBeNull();
  });
});

describe("opening", () => {
  it("shows all of a layer at one click on the chevron, which stays in place", () => {
    const { x, y } = rect(LAYER);
    click(x + 12, y + 24);
    expect(view.screenOf(`${LAYER}.self_attn.q_proj`)).not.toBeNull();
    expect(rect(LAYER).y).toBeCloseTo(y);
    expect(opened).toHaveBeenLastCalledWith(expect.arrayContaining([LAYER]));
    click(rect(LAYER).x + 12, rect(LAYER).y + 16);
    expect(view.screenOf(`${LAYER}.self_attn.q_proj`)).toBeNull();
  });

  it("opens at a double click and at Enter", () => {
    const { x, y, width } = rect(":loss#parts");
    const place = { clientX: x + width / 2, clientY: y + 30, bubbles: true };
    view.canvas.dispatchEvent(new MouseEvent("dblclick", place));
    expect(view.opened()).toContain(":loss#parts");
    view.select(":loss#parts");
    press("Enter");
    expect(view.opened()).not.toContain(":loss#parts");
  });

  it("opens what hides a selected node", () => {
    view.select(`${LAYER}.mlp.down_proj`);
    const found = rect(`${LAYER}.mlp.down_proj`);
    expect(found.y).toBeGreaterThan(0);
    expect(found.y + found.height).toBeLessThan(700);
    expect(chosen).not.toHaveBeenCalled();
  });

  it("keeps what is open when an edit comes back", () => {
    view.openGroup(LAYER, true);
    view.select(`${LAYER}.self_attn.q_proj`);
    const before = rect(`${LAYER}.self_attn.q_proj`);
    view.setModel(fromPlanView(large));
    expect(rect(`${LAYER}.self_attn.q_proj`)).toEqual(before);
  });
});

describe("hitting", () => {
  it("selects boxes and headers, and nothing on empty ground", () => {
    clickOn(":lm_head");
    expect(chosen).toHaveBeenLastCalledWith(":lm_head");
    const { x, y } = rect(":model");
    click(x + 60, y + 16);
    expect(chosen).toHaveBeenLastCalledWith(":model");
    click(3, 3);
    expect(chosen).toHaveBeenLastCalledWith(null);
  });

  it("selects the producer of a badge", () => {
    // The badge between the norm and the head is halfway between them.
    const [norm, head] = [rect(":model.norm"), rect(":lm_head")];
    const middle = (norm.y + norm.height + head.y) / 2;
    click(norm.x + norm.width / 2, middle + 12);
    expect(chosen).toHaveBeenLastCalledWith(":model.norm");
  });

  it("drags without selecting", () => {
    const { x, y } = rect(":lm_head");
    const at = (dx: number) => ({
      clientX: x + 20 + dx,
      clientY: y + 10,
      pointerId: 1,
      button: 0,
      bubbles: true,
    });
    view.canvas.dispatchEvent(new PointerEvent("pointerdown", at(0)));
    view.canvas.dispatchEvent(new PointerEvent("pointermove", at(50)));
    view.canvas.dispatchEvent(new PointerEvent("pointerup", at(50)));
    expect(chosen).not.toHaveBeenCalled();
    expect(rect(":lm_head").x).toBeCloseTo(x + 50);
  });

  it("pinches with two fingers", () => {
    const { zoom } = view.viewport.camera;
    const finger = (id: number, x: number) => ({
      clientX: x,
      clientY: 300,
      pointerId: id,
      button: 0,
      bubbles: true,
    });
    view.canvas.dispatchEvent(new PointerEvent("pointerdown", finger(1, 400)));
    view.canvas.dispatchEvent(new PointerEvent("pointerdown", finger(2, 500)));
    view.canvas.dispatchEvent(new PointerEvent("pointermove", finger(2, 600)));
    expect(view.viewport.camera.zoom).toBeCloseTo(zoom * 2);
  });

  it("zooms at the pointer with Ctrl and the wheel, and pans with the wheel alone", () => {
    const { x, y } = rect(":lm_head");
    view.canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: 40 }));
    expect(rect(":lm_head").y).toBeCloseTo(y - 40);
    const wheel = new WheelEvent("wheel", {
      deltaY: -100,
      ctrlKey: true,
      clientX: x,
      clientY: y - 40,
    });
    // The test's DOM leaves these out of wheel events.
    for (const [key, value] of Object.entries({ clientX: x, clientY: y - 40, ctrlKey: true })) {
      Object.defineProperty(wheel, key, { value });
    }
    view.canvas.dispatchEvent(wheel);
    expect(rect(":lm_head").x).toBeCloseTo(x);
    expect(rect(":lm_head").y).toBeCloseTo(y - 40);
    expect(view.viewport.camera.zoom).toBeGreaterThan(1);
  });
});

describe("keys", () => {
  it("follow edges down and up, and to siblings", () => {
    view.openGroup(LAYER, true);
    view.select(`${LAYER}.self_attn.k_proj`);
    press("ArrowDown");
    expect(chosen).toHaveBeenLastCalledWith(`${LAYER}.self_attn/split_k`);
    press("ArrowUp");
    expect(chosen).toHaveBeenLastCalledWith(`${LAYER}.self_attn.k_proj`);
    press("ArrowRight");
    expect(chosen).toHaveBeenLastCalledWith(`${LAYER}.self_attn.v_proj`);
    press("ArrowLeft");
    expect(chosen).toHaveBeenLastCalledWith(`${LAYER}.self_attn.k_proj`);
    press("ArrowUp");
    expect(chosen).toHaveBeenLastCalledWith(`${LAYER}.input_layernorm`);
  });

  it("start somewhere, clear, zoom and fit", () => {
    press("ArrowDown");
    expect(chosen).toHaveBeenCalledOnce();
    press("Escape");
    expect(chosen).toHaveBeenLastCalledWith(null);
    press("+");
    press("+");
    const { zoom } = view.viewport.camera;
    press("f");
    expect(view.viewport.camera.zoom).toBeLessThan(zoom);
    press("0");
    expect(view.viewport.camera.zoom).toBe(1);
  });
});

describe("for screen readers", () => {
  it("says what is selected", () => {
    expect(view.canvas.getAttribute("role")).toBe("application");
    view.select(`${LAYER}.self_attn.o_proj`);
    const text = host.querySelector("[aria-live]")?.textContent ?? "";
    expect(text).toContain("o_proj, linear. B over dp, S whole, n whole. Partial: Σtp0·tp1.");
    expect(text).toContain("Parameter weight [dp, tp0·tp1]. All-gather over dp, 32 MiB");
    expect(text).toContain("Reduce-scatter over tp0 and tp1, 512 MiB");
    view.select(LAYER);
    expect(host.querySelector("[aria-live]")?.textContent).toContain(
      "layers 0 to 125, 19 ops each, open.",
    );
  });
});

describe("export", () => {
  it("writes the whole graph as SVG, whatever is on screen", () => {
    view.viewport.pan(5000, 5000);
    const svg = view.toSvg();
    const page = new DOMParser().parseFromString(svg, "image/svg+xml");
    const texts = [...page.querySelectorAll("text")].map((t) => t.textContent);
    expect(texts).toEqual(expect.arrayContaining(["embed_tokens", "×126", "RS tp0", "Σtp0·tp1"]));
    expect(svg).not.toMatch(/NaN|undefined/);
  });
});

describe("runs side by side", () => {
  it("stand in one row in the order in which they run", () => {
    view.setModel(fromPlanView(runs));
    const [a, b, c] = ["0-11", "12", "13-31"].map((run) =>
      rect(`model.layers.${run}:model.layers.*`),
    );
    expect(a && b && c && a.x + a.width < b.x && b.x + b.width < c.x).toBe(true);
    expect((a?.y ?? 0) + (a?.height ?? 0)).toBeCloseTo((b?.y ?? 0) + (b?.height ?? 0));
  });
});

describe("layout client", () => {
  const geometry = {} as Geometry;
  const skeleton = {} as Skeleton;

  it("drops an answer that a newer request has superseded, and skips those between", () => {
    const sent: LayoutRequest[] = [];
    const worker: LayoutWorker = {
      onmessage: null,
      onerror: null,
      postMessage: (request) => sent.push(request),
      terminate: () => {},
    };
    const answer = (id: number) =>
      worker.onmessage?.({ data: { id, geometry, milliseconds: 1 } } as MessageEvent<LayoutAnswer>);
    const client = new LayoutClient(worker);
    const [first, second, third] = [vi.fn(), vi.fn(), vi.fn()];
    client.request(skeleton, [true], first);
    client.request(skeleton, [false], second);
    client.request(skeleton, [true], third);
    expect(sent).toHaveLength(1);
    answer(1);
    expect(sent).toHaveLength(2);
    expect(sent[1]?.skeleton).toBeUndefined();
    answer(2);
    expect(first).not.toHaveBeenCalled();
    expect(second).not.toHaveBeenCalled();
    expect(third).toHaveBeenCalledOnce();
  });
});

describe("layout without a worker", () => {
  it("runs in the page when the worker can't start", () => {
    const worker: LayoutWorker = {
      onmessage: null,
      onerror: null,
      postMessage: () => worker.onerror?.(new ErrorEvent("error")),
      terminate: () => {},
    };
    const own = new GraphView(host, { measure, worker });
    own.setModel(fromPlanView(large));
    expect(own.screenOf(":lm_head")).not.toBeNull();
    own.destroy();
  });
});

describe("texts and colours", () => {
  it("are short", () => {
    expect([512, 1536, 8 << 20, 299 * 2 ** 30].map(formatBytes)).toEqual([
      "512 B",
      "1.5 KiB",
      "8 MiB",
      "299 GiB",
    ]);
    expect([1.3e-4, 1.53e-3, 2].map(formatSeconds)).toEqual(["130 µs", "1.53 ms", "2 s"]);
    expect(["all_gather", "all_to_all", "something_new"].map(kindMark)).toEqual([
      "AG",
      "A2A",
      "something new",
    ]);
    expect(partialMark("sum", ["tp"])).toBe("Σtp");
    expect(partialMark("max", ["tp"])).toBe("max tp");
    const cell = { total: 4096, local: 4096, axes: [] };
    expect(cellLetter({ ...cell, factors: ["batch"], size: "B" })).toBe("B");
    expect(cellLetter({ ...cell, factors: ["g", "r"], size: "4096" })).toBe("gr");
    expect(cellLetter({ ...cell, factors: [], size: "4096" })).toBe("4096");
  });

  it("mean an axis, with text that can be read on it", () => {
    const hues = { dp: "#0072B2", tp: "#E69F00", pp: "#009E73", cp: "#CC79A7", ep: "#56B4E9" };
    expect(axisColour("tp0", hues, LIGHT)).toBe(hues.tp);
    expect(axisColour("other", hues, LIGHT)).toBe(LIGHT.fallbackAxis);
    for (const hue of Object.values(hues)) {
      const [a, b] = [luminance(hue), luminance(textOn(hue))].sort((p, q) => q - p) as [
        number,
        number,
      ];
      expect((a + 0.05) / (b + 0.05)).toBeGreaterThan(4.5);
    }
  });

  it("lose detail with distance", () => {
    expect([1, 0.55, 0.4, 0.25, 0.1].map(detailAt)).toEqual([
      "full",
      "full",
      "boxes",
      "boxes",
      "bars",
    ]);
  });
});

describe("camera", () => {
  const rect = { x: 0, y: 0, width: 2000, height: 1000 };
  const still = { zoom: 1, x: 0, y: 0 };

  it("fits, holds the point under the pointer, reveals, and does not lose the graph", () => {
    expect(fitted(rect, 1048, 800).zoom).toBe(0.5);
    const near = zoomAt({ zoom: 1, x: 10, y: 20 }, 2, 100, 100);
    expect([(100 - near.x) / 2, (100 - near.y) / 2]).toEqual([90, 80]);
    expect(revealed(still, { x: 1900, y: 100, width: 50, height: 50 }, 800, 600)).toEqual({
      zoom: 1,
      x: -1190,
      y: 0,
    });
    expect(kept({ zoom: 1, x: -9000, y: 9000 }, rect, 800, 600)).toEqual({
      zoom: 1,
      x: -1940,
      y: 540,
    });
  });
});
