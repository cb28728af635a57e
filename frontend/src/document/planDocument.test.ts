import { describe, expect, it, vi } from "vitest";
import { type Api, ApiError } from "../api/client";
import type { Change, PlanState } from "../api/types";
import { plan } from "./fixtures";
import { type Channel, createPlanDocument, restore, type Step } from "./planDocument";

function problem(status: number, more: { version?: number } = {}): ApiError {
  return new ApiError({
    type: "about:blank",
    title: "",
    status,
    detail: "no",
    code: "x",
    hint: "",
    subject: "",
    place: null,
    ...more,
  });
}

/** A server whose answers the test gives one by one. */
function server() {
  const waiting: { changes: Change[]; answer(state: PlanState): void; fail(error: Error): void }[] =
    [];
  const call = (changes: Change[]) =>
    new Promise<PlanState>((resolve, reject) => {
      waiting.push({ changes, answer: resolve, fail: reject });
    });
  const fake = {
    edit: vi.fn((_id: string, _version: number, changes: Change[]) => call(changes)),
    undo: vi.fn(() => call([])),
    redo: vi.fn(() => call([])),
    plan: vi.fn(async () => plan(9)),
    copy: vi.fn(async () => plan(1, { id: "copy" })),
    rename: vi.fn(),
  };
  return { api: fake as unknown as Api, fake, waiting };
}

function channel(): Channel {
  return { postMessage: vi.fn(), onmessage: null, close: () => {} };
}

function step(factor: string, axes: string[], target = "layers.*.a"): Step {
  return {
    changes: [{ type: "factor", target, factor, axes }],
    label: `split ${factor}`,
    field: `factor:${factor}`,
    layer: null,
  };
}

const settle = () => new Promise((resolve) => setTimeout(resolve));
const axes = (document: ReturnType<typeof createPlanDocument>, name: string) =>
  document.getState().view.nodes[0]?.factors.find((factor) => factor.name === name)?.axes;

describe("an edit", () => {
  it("is drawn at once and replaced by the answer", async () => {
    const { api, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    expect(axes(document, "n")).toEqual(["tp"]);
    expect(document.getState().plan.version).toBe(1);
    waiting[0]?.answer(plan(2));
    await settle();
    expect(document.getState()).toMatchObject({ pending: false, plan: { version: 2 } });
    expect(document.getState().previous?.step_time_s).toBe(1);
    expect(axes(document, "n")).toEqual([]);
  });

  it("waits while another is in flight, and those that wait go together", async () => {
    const { api, fake, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    document.edit(step("k", ["dp"]));
    document.edit(step("k", []));
    expect(fake.edit).toHaveBeenCalledTimes(1);
    waiting[0]?.answer(plan(2));
    await settle();
    expect(fake.edit).toHaveBeenCalledTimes(2);
    expect(waiting[1]?.changes).toEqual([
      { type: "factor", target: "layers.*.a", factor: "k", axes: [] },
    ]);
  });

  it("that is refused is taken back, with the reason by its field", async () => {
    const { api, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    waiting[0]?.fail(problem(422));
    await settle();
    expect(axes(document, "n")).toEqual([]);
    expect(document.getState().refusal).toMatchObject({ field: "factor:n", label: "split n" });
  });

  it("that is refused among others does not take them with it", async () => {
    const { api, fake, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("batch", ["dp"]));
    document.edit(step("n", ["tp"]));
    document.edit(step("k", ["tp"]));
    waiting[0]?.answer(plan(2));
    await settle();
    waiting[1]?.fail(problem(422));
    await settle();
    waiting[2]?.fail(problem(422));
    await settle();
    waiting[3]?.answer(plan(3));
    await settle();
    expect(fake.edit).toHaveBeenCalledTimes(4);
    expect(document.getState().plan.version).toBe(3);
  });

  it("keeps waiting when the server is away", async () => {
    const { api, fake, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    waiting[0]?.fail(problem(0));
    await settle();
    expect(document.getState().offline).not.toBeNull();
    expect(axes(document, "n")).toEqual(["tp"]);
    document.retry();
    waiting[1]?.answer(plan(2));
    await settle();
    expect(fake.edit).toHaveBeenCalledTimes(2);
    expect(document.getState()).toMatchObject({ offline: null, plan: { version: 2 } });
  });
});

describe("undo", () => {
  it("goes after the edits before it", async () => {
    const { api, fake, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    document.undo();
    expect(fake.undo).not.toHaveBeenCalled();
    waiting[0]?.answer(plan(2));
    await settle();
    expect(fake.undo).toHaveBeenCalledWith("p1", 2);
  });

  it("is dropped with the refused edit that it was meant for", async () => {
    const { api, fake, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.edit(step("n", ["tp"]));
    document.undo();
    waiting[0]?.fail(problem(422));
    await settle();
    expect(fake.undo).not.toHaveBeenCalled();
  });
});

describe("several that are selected", () => {
  it("are one selection, and end with the next", () => {
    const document = createPlanDocument(plan(1), server().api, channel());
    document.select("run:layers.*.a");
    document.mark(["run:layers.*.a", "run:layers.*.b"]);
    expect(document.getState()).toMatchObject({
      selected: null,
      marked: ["run:layers.*.a", "run:layers.*.b"],
    });
    document.select(null);
    expect(document.getState()).toMatchObject({ selected: null, marked: [] });
    document.mark(["run:layers.*.a"]);
    expect(document.getState()).toMatchObject({ selected: "run:layers.*.a", marked: [] });
  });

  it("are those that the plan still has", async () => {
    const { api, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.mark(["run:layers.*.a", "gone"]);
    document.edit(step("n", ["tp"]));
    waiting[0]?.answer(plan(2));
    await settle();
    expect(document.getState().marked).toEqual(["run:layers.*.a"]);
  });
});

describe("a version conflict", () => {
  async function conflicted() {
    const given = server();
    const document = createPlanDocument(plan(1), given.api, channel());
    document.edit(step("n", ["tp"]));
    given.waiting[0]?.fail(problem(412, { version: 7 }));
    await settle();
    return { ...given, document };
  }

  it("keeps what was not sent, and what comes after it", async () => {
    const { document } = await conflicted();
    document.edit(step("k", ["dp"]));
    expect(document.getState().conflict).toMatchObject({
      version: 7,
      unsent: [{ label: "split n" }, { label: "split k" }],
    });
    expect(axes(document, "n")).toEqual(["tp"]);
  });

  it("reload offers it again", async () => {
    const { document, fake } = await conflicted();
    await document.reload();
    expect(document.getState()).toMatchObject({ conflict: null, plan: { version: 9 } });
    expect(document.getState().leftover).toHaveLength(1);
    document.applyLeftover();
    expect(fake.edit).toHaveBeenLastCalledWith("p1", 9, step("n", ["tp"]).changes, "split n");
  });

  it("keep mine writes this tab's plan and the unsent edit into a copy", async () => {
    const { document, waiting } = await conflicted();
    const id = document.keepAsCopy();
    await settle();
    expect(waiting[1]?.changes).toEqual(restore(plan(1)));
    waiting[1]?.answer(plan(2, { id: "copy" }));
    await settle();
    expect(waiting[2]?.changes).toEqual(step("n", ["tp"]).changes);
    waiting[2]?.answer(plan(3, { id: "copy" }));
    expect(await id).toBe("copy");
  });
});

describe("the changes of a whole plan", () => {
  it("hold its stages, after all that they may not meet", () => {
    const stages: [string, number][] = [["layers.0-1", 0]];
    const cut = plan(1, { pipeline: { axis: "pp", schedule: "1f1b", per_rank: 1, stages } });
    const [, whole] = restore(cut);
    expect(whole).toMatchObject({ type: "pipeline", axis: null });
    expect(restore(cut).at(-1)).toEqual({
      type: "pipeline",
      axis: "pp",
      schedule: "1f1b",
      per_rank: 1,
      stages: [{ target: "layers.0-1", stage: 0 }],
    });
    expect(restore(plan(1)).at(-1)).toMatchObject({ type: "gradients" });
  });
});

describe("another tab", () => {
  it("is told of each new version", async () => {
    const { api, waiting } = server();
    const tabs = channel();
    const document = createPlanDocument(plan(1), api, tabs);
    document.undo();
    waiting[0]?.answer(plan(2));
    await settle();
    expect(tabs.postMessage).toHaveBeenCalledWith({ id: "p1", version: 2 });
  });

  it("makes this one stale with a newer version of the same plan", () => {
    const { api } = server();
    const tabs = channel();
    const document = createPlanDocument(plan(3), api, tabs);
    const tell = (id: string, version: number) =>
      tabs.onmessage?.(new MessageEvent("message", { data: { id, version } }));
    tell("p2", 9);
    tell("p1", 3);
    expect(document.getState().conflict).toBeNull();
    tell("p1", 4);
    expect(document.getState().conflict).toEqual({ version: 4, unsent: [] });
  });
});

describe("an edge that is selected", () => {
  it("selects who makes its value, and stands out until something else is selected", () => {
    const document = createPlanDocument(plan(1), server().api, channel());
    document.selectEdge("run:a");
    expect(document.getState()).toMatchObject({ selected: "run:layers.*.a", edge: "run:a" });
    document.select("run:layers.*.a");
    expect(document.getState()).toMatchObject({ selected: "run:layers.*.a", edge: null });
    document.selectEdge("run:a");
    document.mark(["run:layers.*.a", "run:layers.*.b"]);
    expect(document.getState().edge).toBeNull();
  });

  it("selects a reader of what comes from outside, and nothing where there is no such edge", () => {
    const { view } = plan(1);
    const edges = view.edges.map((edge) => ({ ...edge, producer: "" }));
    const document = createPlanDocument(
      plan(1, { view: { ...view, edges } }),
      server().api,
      channel(),
    );
    document.selectEdge("run:a");
    expect(document.getState().selected).toBe("run:layers.*.b");
    document.select(null);
    document.selectEdge("gone");
    expect(document.getState()).toMatchObject({ selected: null, edge: null });
  });

  it("does not outlive its value", async () => {
    const { api, waiting } = server();
    const document = createPlanDocument(plan(1), api, channel());
    document.selectEdge("run:a");
    document.edit(step("n", ["tp"]));
    await settle();
    waiting[0]?.answer(plan(2));
    await settle();
    expect(document.getState().edge).toBe("run:a");
    document.edit(step("n", []));
    await settle();
    waiting[1]?.answer(plan(3, { view: { ...plan(3).view, edges: [] } }));
    await settle();
    expect(document.getState().edge).toBeNull();
  });
});
