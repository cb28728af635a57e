// The form of a redistribution: what is typed, sent and put into the address, and where a refusal belongs.
import type { Problem, RedistributionAnswer, RedistributionRequest } from "../api/types";

export interface Fields {
  mesh: string;
  shape: string;
  dtype: string;
  /** Empty for the cluster that the server takes by itself. */
  cluster: string;
  source: string;
  target: string;
  /** What is to be least. */
  objective: string;
  /** `no` to do without the direct exchange. */
  exchange: string;
  /** Another mesh of the same ranks, and another shape, which `target` is on; empty for the same. */
  to_mesh: string;
  to_shape: string;
  planner: string;
  /** `yes` to see also the other ways of which none is better in every respect. */
  front: string;
}

export type Field = keyof Fields;

export const FIRST: Fields = {
  mesh: "dp:8,tp:8",
  shape: "16384x16384",
  dtype: "bfloat16",
  cluster: "",
  source: "[dp, tp]",
  target: "[tp, dp]",
  objective: "time",
  exchange: "yes",
  to_mesh: "",
  to_shape: "",
  planner: "cheapest",
  front: "no",
};

export const OBJECTIVES: { value: string; label: string }[] = [
  { value: "time", label: "least time" },
  { value: "bytes", label: "least bytes" },
  { value: "peak", label: "least memory" },
  { value: "steps", label: "fewest steps" },
];

export const PLANNERS: { value: string; label: string }[] = [
  { value: "cheapest", label: "cheapest" },
  { value: "mindspore", label: "as MindSpore" },
  { value: "mindspore-alltoall", label: "as MindSpore, all-to-all" },
];

/** Whether more is asked than the first two rows say. */
export function hasOptions(fields: Fields): boolean {
  return MORE.some((key) => fields[key] !== FIRST[key]);
}

/** What to begin with on a mesh: two layouts that trade its last axes. */
export function fieldsOn(mesh: readonly (readonly [string, number])[], cluster: string): Fields {
  const axes = mesh.filter(([, size]) => size > 1).map(([name]) => name);
  const [one, other] = axes.length > 1 ? axes.slice(-2) : [axes[0] ?? "-", "-"];
  return {
    ...FIRST,
    mesh: meshText(mesh),
    cluster,
    source: `[${one}, ${other}]`,
    target: `[${other}, ${one}]`,
  };
}

/** The form that would ask for an answer. */
export function fieldsOf(answer: RedistributionAnswer): Fields {
  const { mesh, shape, dtype, cluster, source, target } = answer;
  const last = answer.slices.at(-1);
  const to_mesh = last && meshText(last.mesh) !== meshText(mesh) ? meshText(last.mesh) : "";
  const to_shape = last && last.shape.join() !== shape.join() ? last.shape.join("x") : "";
  return {
    ...FIRST,
    to_mesh,
    to_shape,
    mesh: meshText(mesh),
    shape: shape.join("x"),
    dtype,
    cluster,
    source,
    target,
  };
}

export function meshText(mesh: readonly (readonly [string, number])[]): string {
  return mesh.map(([name, size]) => `${name}:${size}`).join(",");
}

export function requestOf(fields: Fields): RedistributionRequest {
  const { cluster, objective, exchange, to_mesh, to_shape, planner, front, ...rest } = fields;
  return {
    ...rest,
    cluster: cluster.trim() === "" ? null : cluster.trim(),
    objective: objective as RedistributionRequest["objective"],
    exchange: exchange !== "no",
    to_mesh: to_mesh.trim() === "" ? null : to_mesh,
    to_shape: to_shape.trim() === "" ? null : to_shape,
    planner: planner as RedistributionRequest["planner"],
    front: front === "yes",
  };
}

const NAMES: Record<Field, string> = {
  mesh: "mesh",
  shape: "shape",
  dtype: "dtype",
  cluster: "cluster",
  source: "from",
  target: "to",
  objective: "objective",
  exchange: "exchange",
  to_mesh: "to-mesh",
  to_shape: "to-shape",
  planner: "planner",
  front: "front",
};
const KEYS = Object.keys(NAMES) as Field[];
/** Said only where they are not as at first. */
const MORE: readonly Field[] = ["objective", "exchange", "to_mesh", "to_shape", "planner", "front"];

/** The query of an address, with what is filled in. */
export function queryOf(fields: Fields): string {
  const filled = KEYS.filter(
    (key) => fields[key] !== "" && !(MORE.includes(key) && fields[key] === FIRST[key]),
  );
  return new URLSearchParams(filled.map((key) => [NAMES[key], fields[key]])).toString();
}

/** The fields of a query; what it leaves out is as at first, unless it says nothing at all. */
export function fieldsOfQuery(query: string): Fields {
  const found = new URLSearchParams(query);
  const fields = { ...FIRST };
  for (const key of KEYS) fields[key] = found.get(NAMES[key]) ?? fields[key];
  return fields;
}

const BY_CODE: [RegExp, Field][] = [
  [/^(mesh\.|http\.mesh-)/, "mesh"],
  [/shape-/, "shape"],
  [/^tensor\.dtype-/, "dtype"],
  [/^hardware\./, "cluster"],
  [/^reshape\./, "to_shape"],
];

/** The field that a refusal is about: that whose text has the place, else the one that its code or subject tells. */
export function fieldAt(problem: Problem, sent: Fields): Field | null {
  const place = problem.place;
  const marked = place && KEYS.find((key) => sent[key] === place.text);
  if (marked) return marked;
  const subject = problem.subject.split(".")[0];
  const named = KEYS.find((key) => key === subject);
  return named ?? BY_CODE.find(([pattern]) => pattern.test(problem.code))?.[1] ?? null;
}

/** Whether a refusal still applies to what is typed now: until the text with the place is changed, else any. */
export function standsStill(problem: Problem, sent: Fields, now: Fields): boolean {
  const field = problem.place && fieldAt(problem, sent);
  return field ? now[field] === sent[field] : KEYS.every((key) => now[key] === sent[key]);
}

export interface Marked {
  before: string;
  marked: string;
  after: string;
}

/** The text around a place, shortened to `width` signs; the end of a text is marked by a blank. */
export function around(
  place: { text: string; start: number; stop: number },
  width: number,
): Marked {
  const { text, start } = place;
  const stop = Math.max(place.stop, start + 1);
  const first = text.length > width ? Math.max(0, start - Math.floor(width / 2)) : 0;
  const last = Math.max(stop, first + width);
  return {
    before: (first > 0 ? "…" : "") + text.slice(first, start),
    marked: text.slice(start, stop) || " ",
    after: text.slice(stop, last) + (last < text.length ? "…" : ""),
  };
}
