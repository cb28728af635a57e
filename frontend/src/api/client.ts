import createClient from "openapi-fetch";
import type { paths } from "./schema";
import type {
  Change,
  Choice,
  Code,
  CodeDiff,
  CodeForm,
  Figure,
  HistoryStep,
  Job,
  Model,
  NewPlan,
  PipelineAnswer,
  PlanState,
  PlanSummary,
  Problem,
  RedistributionAnswer,
  RedistributionRequest,
  Registry,
  Report,
  ScheduleAnswer,
  ScheduleEntry,
  ScheduleRequest,
  Slices,
} from "./types";

/** An answer that is no success; what it says comes from the server's problem document. */
export class ApiError extends Error {
  constructor(readonly problem: Problem & { version?: number }) {
    super(problem.detail);
  }
}

const UNREACHABLE: Problem = {
  type: "about:blank",
  title: "No answer",
  status: 0,
  detail: "The server does not answer.",
  code: "http.unreachable",
  hint: "See that `shardwright serve` is running, then try again.",
  subject: "",
  place: null,
};

const client = createClient<paths>({ baseUrl: "" });

// openapi-fetch reads tuples as arrays, so that what an answer holds is named by the caller; what is sent is checked.
interface Answer {
  data?: unknown;
  error?: unknown;
  response: Response;
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "detail" in value && "code" in value;
}

async function settle<T>(call: Promise<Answer>): Promise<T> {
  let answer: Answer;
  try {
    answer = await call;
  } catch {
    throw new ApiError(UNREACHABLE);
  }
  if (answer.response.ok) return answer.data as T;
  if (isProblem(answer.error)) throw new ApiError(answer.error);
  const { status, statusText } = answer.response;
  const detail = `The server answered ${status} ${statusText}.`;
  throw new ApiError({ ...UNREACHABLE, title: statusText, status, detail, code: "http.error" });
}

const at = (plan_id: string) => ({ path: { plan_id } });
const atJob = (job_id: string) => ({ path: { job_id } });
const atVersion = (plan_id: string, version: number) => ({
  path: { plan_id },
  header: { "If-Match": `"${version}"` },
});

/** Everything that the page asks of the server. */
export const api = {
  registry: (): Promise<Registry> => settle(client.GET("/api/v1/registry")),
  models: (): Promise<Model[]> => settle(client.GET("/api/v1/models")),
  addModel: (name: string, content: string): Promise<Model> =>
    settle(client.POST("/api/v1/models", { body: { name, content } })),
  importModel: (name: string, file: Blob): Promise<Job> =>
    settle(
      client.POST("/api/v1/models/import", {
        params: { query: { name } },
        // The generated type of binary content is a string.
        body: file as unknown as string,
        bodySerializer: (body) => body,
        headers: { "Content-Type": "application/octet-stream" },
      }),
    ),
  plans: (): Promise<PlanSummary[]> => settle(client.GET("/api/v1/plans")),
  plan: (id: string): Promise<PlanState> =>
    settle(client.GET("/api/v1/plans/{plan_id}", { params: at(id) })),
  createPlan: (body: NewPlan): Promise<PlanState> => settle(client.POST("/api/v1/plans", { body })),
  importPlan: (text: string, name?: string): Promise<PlanState> =>
    settle(client.POST("/api/v1/plans/import", { body: { text, name } })),
  rename: (id: string, name: string): Promise<PlanSummary> =>
    settle(client.PUT("/api/v1/plans/{plan_id}/name", { params: at(id), body: { name } })),
  copy: (id: string, name?: string): Promise<PlanState> =>
    settle(client.POST("/api/v1/plans/{plan_id}/copy", { params: at(id), body: { name } })),
  remove: (id: string): Promise<void> =>
    settle(client.DELETE("/api/v1/plans/{plan_id}", { params: at(id) })),
  edit: (id: string, version: number, changes: Change[], label: string): Promise<PlanState> =>
    settle(
      client.PATCH("/api/v1/plans/{plan_id}", {
        params: atVersion(id, version),
        body: { changes, label },
      }),
    ),
  undo: (id: string, version: number): Promise<PlanState> =>
    settle(client.POST("/api/v1/plans/{plan_id}/undo", { params: atVersion(id, version) })),
  redo: (id: string, version: number): Promise<PlanState> =>
    settle(client.POST("/api/v1/plans/{plan_id}/redo", { params: atVersion(id, version) })),
  choices: (id: string, node: string): Promise<Choice[]> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/choices", { params: { ...at(id), query: { node } } }),
    ),
  report: (id: string): Promise<Report> =>
    settle(client.GET("/api/v1/plans/{plan_id}/report", { params: at(id) })),
  figure: (id: string, name: "communication" | "memory" | "step"): Promise<Figure> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/figures/{figure}", {
        params: { path: { plan_id: id, figure: name } },
      }),
    ),
  /** The forms of exported code, each with the reason if the plan can't be written in it. */
  forms: (id: string): Promise<CodeForm[]> =>
    settle(client.GET("/api/v1/plans/{plan_id}/forms", { params: at(id) })),
  code: (id: string, form: string): Promise<Code> =>
    settle(client.GET("/api/v1/plans/{plan_id}/code", { params: { ...at(id), query: { form } } })),
  /** The edits that can be taken back, the last one first. */
  history: (id: string): Promise<HistoryStep[]> =>
    settle(client.GET("/api/v1/plans/{plan_id}/history", { params: at(id) })),
  /** What the last edits changed in the code. */
  codeDiff: (id: string, form: string, back: number): Promise<CodeDiff> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/code/diff", {
        params: { ...at(id), query: { form, back } },
      }),
    ),
  redistribute: (body: RedistributionRequest): Promise<RedistributionAnswer> =>
    settle(client.POST("/api/v1/redistribute", { body })),
  /** The redistribution of a plan that the collective at a position among an edge's badges is a step of. */
  redistributionOf: (id: string, edge: string, badge: number): Promise<RedistributionAnswer> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/redistribution", {
        params: { ...at(id), query: { edge, badge } },
      }),
    ),
  /** Which part each rank holds: of a node's slot, or, without a slot, of an edge's value. */
  slices: (id: string, node: string, slot: string): Promise<Slices> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/slices", {
        params: { ...at(id), query: { node, slot } },
      }),
    ),
  schedules: (): Promise<ScheduleEntry[]> => settle(client.GET("/api/v1/schedules")),
  schedule: (body: ScheduleRequest): Promise<ScheduleAnswer> =>
    settle(client.POST("/api/v1/schedules", { body })),
  /** The order for torch, or the times for Perfetto, as text. */
  scheduleFile: (kind: "csv" | "trace", body: ScheduleRequest): Promise<string> =>
    settle(client.POST(`/api/v1/schedules/${kind}`, { body, parseAs: "text" })),
  /** The pipeline of a plan; with the name of another schedule, both on one time axis. */
  pipeline: (id: string, against: string): Promise<PipelineAnswer> =>
    settle(
      client.GET("/api/v1/plans/{plan_id}/pipeline", {
        params: { ...at(id), query: { against } },
      }),
    ),
  prove: (id: string): Promise<Job> =>
    settle(client.POST("/api/v1/plans/{plan_id}/proofs", { params: at(id), body: { ranks: 8 } })),
  job: (id: string): Promise<Job> =>
    settle(client.GET("/api/v1/jobs/{job_id}", { params: atJob(id) })),
  cancelJob: (id: string): Promise<Job> =>
    settle(client.DELETE("/api/v1/jobs/{job_id}", { params: atJob(id) })),
  fileAddress: (id: string) => `/api/v1/plans/${encodeURIComponent(id)}/file`,
  zipAddress: (id: string, form: string) =>
    `/api/v1/plans/${encodeURIComponent(id)}/export.zip?form=${encodeURIComponent(form)}`,
  pipelineAddress: (id: string, what: "page" | "trace" | "schedule.csv") =>
    `/api/v1/plans/${encodeURIComponent(id)}/pipeline/${what}`,
  jobEventsAddress: (id: string) => `/api/v1/jobs/${encodeURIComponent(id)}/events`,
};

export type Api = typeof api;

/** Turns whatever was thrown into something that can be shown. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return {
    ...UNREACHABLE,
    title: "Fault in the page",
    detail,
    hint: "Reload the page.",
    code: "page.fault",
  };
}
