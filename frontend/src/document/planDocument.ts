// An open plan: the server's truth, what is drawn on top of it, and the way of an edit.
//
// An edit is drawn at once and sent; one request is in flight, and what comes meanwhile is queued and merged. The answer
// replaces the draft. A refusal takes the edit back and is shown by its field. A version conflict stops the queue until
// somebody says which side to keep, and loses neither.
import { createStore, type StoreApi } from "zustand/vanilla";
import { type Api, ApiError, problemOf } from "../api/client";
import type { Change, PlanState, PlanView, Problem, Summary } from "../api/types";
import { draft, merge } from "./draft";
import { reselect } from "./layers";

export interface Step {
  changes: Change[];
  label: string;
  /** Where a refusal is shown, e.g. `factor:n` or `mesh`. */
  field: string;
  /** A layer that the edit is about, so that the selection follows it when a run is cut. */
  layer: number | null;
}

export interface Conflict {
  /** Version on the server, if it is known. */
  version: number | null;
  unsent: readonly Step[];
}

export interface PlanDocumentState {
  plan: PlanState;
  /** The plan's view with drafts of what is not answered yet. */
  view: PlanView;
  /** The changes that are not answered yet, in their order. */
  unsent: readonly Change[];
  /** The numbers before the last accepted edit, to tell what it did. */
  previous: Summary | null;
  /** Id of an operator or a group. */
  selected: string | null;
  /** Id of an edge that stands out; who makes its value, or reads it, is selected then. */
  edge: string | null;
  /** Ids of several operators that are edited together; empty while at most one is selected. */
  marked: readonly string[];
  /** Name of the factor that keys 1–9 act on. */
  factor: string | null;
  pending: boolean;
  /** Pending for so long that the numbers should look old. */
  slow: boolean;
  refusal: { problem: Problem; field: string; label: string } | null;
  conflict: Conflict | null;
  /** Set while the server can't be reached; edits wait. */
  offline: Problem | null;
  /** Edits that a reload left aside. */
  leftover: readonly Step[];
  roundTripMs: number | null;
}

export interface PlanDocument extends StoreApi<PlanDocumentState> {
  edit(step: Step): void;
  undo(): void;
  redo(): void;
  select(id: string | null): void;
  /** Select a value: who makes it, or for one that comes from outside its first reader, with the edge standing out. */
  selectEdge(id: string): void;
  /** Select several operators; of one alone it is an ordinary selection. */
  mark(ids: readonly string[]): void;
  focusFactor(name: string | null): void;
  reload(): Promise<void>;
  /** Writes this tab's plan, unsent edits included, into a new plan and returns its id. */
  keepAsCopy(): Promise<string>;
  retry(): void;
  applyLeftover(): void;
  /** Says by a field why something can't be done, as a refusal of the server would. */
  refuse(field: string, detail: string, hint: string): void;
  dismiss(what: "refusal" | "leftover"): void;
  rename(name: string): Promise<void>;
  close(): void;
}

type Task = { kind: "edit"; steps: Step[]; alone?: boolean } | { kind: "undo" } | { kind: "redo" };

/** What a tab tells the others; a `BroadcastChannel` in the browser. */
export interface Channel {
  postMessage(message: { id: string; version: number }): void;
  onmessage: ((event: MessageEvent<{ id: string; version: number }>) => void) | null;
  close(): void;
}

const SLOW_MS = 150;
/** No answer, or one from a proxy in front of a server that is away. */
const AWAY = [0, 502, 503, 504];
const LARGEST_PATCH = 200;
const NOTHING: readonly Change[] = [];

export function createPlanDocument(opened: PlanState, api: Api, channel: Channel): PlanDocument {
  const store = createStore<PlanDocumentState>(() => ({
    plan: opened,
    view: opened.view,
    unsent: NOTHING,
    previous: null,
    selected: null,
    edge: null,
    marked: [],
    factor: null,
    pending: false,
    slow: false,
    refusal: null,
    conflict: null,
    offline: null,
    leftover: [],
    roundTripMs: null,
  }));
  const { getState, setState } = store;
  let queue: Task[] = [];
  let current: Task | null = null;
  let slowTimer: ReturnType<typeof setTimeout> | undefined;

  const unsent = (): Step[] =>
    (current ? [current, ...queue] : queue).flatMap((task) =>
      task.kind === "edit" ? task.steps : [],
    );

  function redraw(): void {
    const { plan, conflict } = getState();
    const steps = [...(conflict?.unsent ?? []), ...unsent()];
    const changes = steps.length > 0 ? steps.flatMap((step) => step.changes) : NOTHING;
    setState({ view: draft(plan.view, changes), unsent: changes });
  }

  function setPending(pending: boolean): void {
    if (pending === getState().pending) return;
    clearTimeout(slowTimer);
    if (pending) slowTimer = setTimeout(() => setState({ slow: true }), SLOW_MS);
    setState({ pending, slow: false });
  }

  function accept(plan: PlanState, layer: number | null): void {
    const { plan: before, selected } = getState();
    setState({
      plan,
      previous: before.summary,
      selected: reselect(before.view, plan.view, selected, layer),
      edge: sameEdge(plan, getState().edge),
      marked: stillThere(plan, getState().marked),
      refusal: null,
    });
    channel.postMessage({ id: plan.id, version: plan.version });
  }

  /** Takes what is next; edits that wait behind each other go together. */
  function take(): Task | null {
    const next = queue.shift();
    if (next?.kind !== "edit" || next.alone) return next ?? null;
    const steps = [...next.steps];
    for (let head = queue[0]; head?.kind === "edit" && !head.alone; head = queue[0]) {
      steps.push(...head.steps);
      queue.shift();
    }
    return { kind: "edit", steps };
  }

  function send(task: Task): Promise<PlanState> {
    const { id, version } = getState().plan;
    if (task.kind !== "edit") return api[task.kind](id, version);
    const changes = merge(task.steps.flatMap((step) => step.changes));
    const labels = [...new Set(task.steps.map((step) => step.label))];
    const label =
      labels.length > 1 ? `${labels.at(-1)} (and ${labels.length - 1} more)` : labels[0];
    return api.edit(id, version, changes, (label ?? "edit").slice(0, 200));
  }

  function refuse(task: Task, error: unknown): void {
    const problem = problemOf(error);
    if (problem.status === 412) {
      const version = error instanceof ApiError ? (error.problem.version ?? null) : null;
      setState({ conflict: { version, unsent: unsent() } });
      queue = [];
    } else if (AWAY.includes(problem.status)) {
      queue.unshift(task);
      setState({ offline: problem });
    } else if (task.kind === "edit" && task.steps.length > 1) {
      // One of several is at fault: send each by itself, so that the others are not lost with it.
      queue.unshift(
        ...task.steps.map((step): Task => ({ kind: "edit", steps: [step], alone: true })),
      );
    } else {
      const step = task.kind === "edit" ? task.steps[0] : undefined;
      setState({
        refusal: { problem, field: step?.field ?? "history", label: step?.label ?? task.kind },
      });
      // An undo that waited was meant for the edit that is now not made.
      queue = queue.filter((other) => other.kind === "edit");
    }
  }

  async function run(task: Task): Promise<void> {
    current = task;
    const started = performance.now();
    try {
      const plan = await send(task);
      const layers = task.kind === "edit" ? task.steps.map((step) => step.layer) : [];
      current = null;
      accept(plan, layers.findLast((layer) => layer !== null) ?? null);
      redraw();
      setState({ roundTripMs: performance.now() - started });
    } catch (error) {
      refuse(task, error);
      current = null;
      redraw();
    }
  }

  let pumping = false;
  async function pump(): Promise<void> {
    if (pumping) return;
    pumping = true;
    setPending(true);
    while (!getState().conflict && !getState().offline) {
      const task = take();
      if (!task) break;
      await run(task);
    }
    pumping = false;
    setPending(false);
  }

  function enqueue(task: Task): void {
    const { conflict } = getState();
    if (conflict && task.kind === "edit") {
      setState({ conflict: { ...conflict, unsent: [...conflict.unsent, ...task.steps] } });
      redraw();
      return;
    }
    queue.push(task);
    redraw();
    void pump();
  }

  channel.onmessage = ({ data }) => {
    const { plan, pending } = getState();
    // While a request is on its way, its own answer tells of the conflict.
    if (data.id !== plan.id || data.version <= plan.version || pending) return;
    setState({ conflict: { version: data.version, unsent: [] } });
  };

  return {
    ...store,
    edit: (step) => enqueue({ kind: "edit", steps: [step] }),
    undo: () => enqueue({ kind: "undo" }),
    redo: () => enqueue({ kind: "redo" }),
    select: (id) => {
      const { selected, marked, edge } = getState();
      if (id === selected && marked.length === 0 && edge === null) return;
      setState({ selected: id, edge: null, marked: [], factor: null, refusal: null });
    },
    selectEdge: (id) => {
      const edge = getState().view.edges.find((other) => other.id === id);
      if (!edge) return;
      const selected = edge.producer || edge.readers[0] || null;
      setState({ selected, edge: id, marked: [], factor: null, refusal: null });
    },
    mark: (ids) =>
      setState({
        selected: ids.length === 1 ? (ids[0] ?? null) : null,
        edge: null,
        marked: ids.length > 1 ? ids : [],
        factor: null,
        refusal: null,
      }),
    focusFactor: (factor) => setState({ factor }),
    async reload() {
      const plan = await api.plan(getState().plan.id);
      const { conflict, plan: before, selected } = getState();
      queue = [];
      setState({
        plan,
        view: plan.view,
        unsent: NOTHING,
        previous: null,
        selected: reselect(before.view, plan.view, selected, null),
        edge: sameEdge(plan, getState().edge),
        marked: stillThere(plan, getState().marked),
        conflict: null,
        offline: null,
        refusal: null,
        leftover: conflict?.unsent ?? [],
      });
    },
    async keepAsCopy() {
      const { plan, conflict } = getState();
      let copy = await api.copy(plan.id, `${plan.name} (mine)`.slice(0, 200));
      const mine = restore(plan);
      for (let start = 0; start < mine.length; start += LARGEST_PATCH) {
        const part = mine.slice(start, start + LARGEST_PATCH);
        copy = await api.edit(copy.id, copy.version, part, "Keep mine");
      }
      for (const step of conflict?.unsent ?? []) {
        try {
          copy = await api.edit(copy.id, copy.version, step.changes, step.label);
        } catch (error) {
          // What the server refuses would have been taken back without the conflict, too.
          if (AWAY.includes(problemOf(error).status)) throw error;
        }
      }
      return copy.id;
    },
    retry() {
      setState({ offline: null });
      void pump();
    },
    applyLeftover() {
      const { leftover } = getState();
      setState({ leftover: [] });
      for (const step of leftover) enqueue({ kind: "edit", steps: [step] });
    },
    refuse(field, detail, hint) {
      const problem = { ...problemOf(new Error(detail)), hint };
      setState({ refusal: { problem, field, label: detail } });
    },
    dismiss: (what) => setState(what === "refusal" ? { refusal: null } : { leftover: [] }),
    async rename(name) {
      await api.rename(getState().plan.id, name);
      setState({ plan: { ...getState().plan, name } });
    },
    close() {
      clearTimeout(slowTimer);
      channel.close();
    },
  };
}

function stillThere(plan: PlanState, ids: readonly string[]): readonly string[] {
  if (ids.length === 0) return ids;
  const known = new Set(plan.view.nodes.map((node) => node.id));
  return ids.filter((id) => known.has(id));
}

function sameEdge(plan: PlanState, id: string | null): string | null {
  return plan.view.edges.some((edge) => edge.id === id) ? id : null;
}

/** Changes that make any plan of the same model this one. */
export function restore(plan: PlanState): Change[] {
  const { cluster, global_batch, seq, microbatches, precision, gradients, decisions, view } = plan;
  return [
    { type: "clear" },
    { type: "pipeline", axis: null, schedule: "1f1b", per_rank: 0, stages: [] },
    { type: "mesh", cluster, axes: view.mesh.map(([name, size]) => ({ name, size })) },
    { type: "batch", global_batch, seq, microbatches },
    { type: "precision", name: precision },
    { type: "gradients", ...gradients },
    ...decisions,
    ...pipelineOf(plan),
  ];
}

function pipelineOf({ pipeline }: PlanState): Change[] {
  if (!pipeline) return [];
  const stages = pipeline.stages.map(([target, stage]) => ({ target, stage }));
  return [{ type: "pipeline", ...pipeline, stages }];
}
