// The form of a pipeline: what is chosen, sent, and put into the address.
import type { ScheduleRequest } from "../api/types";

export type Wanted = Required<Omit<ScheduleRequest, "against">> & { against: string };

export const FIRST: Wanted = {
  name: "1f1b",
  against: "zb-h1",
  ranks: 4,
  microbatches: 8,
  per_rank: 0,
  forward: 1,
  backward_input: 1,
  backward_weight: 1,
  send: 0.05,
  keep: 0,
  objective: "makespan",
};

const TEXTS = new Set<keyof Wanted>(["name", "against", "objective"]);

export function queryOf(wanted: Wanted): string {
  const pairs = Object.entries(wanted).filter(
    ([key, value]) => value !== FIRST[key as keyof Wanted],
  );
  return new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
}

/** What an address asks for; what it does not say, or says wrongly, is as in the beginning. */
export function wantedOf(query: string): Wanted {
  const given = new URLSearchParams(query);
  const found: Record<string, string | number> = { ...FIRST };
  for (const key of Object.keys(FIRST) as (keyof Wanted)[]) {
    const text = given.get(key);
    if (text === null) continue;
    if (TEXTS.has(key)) found[key] = text;
    else if (text.trim() !== "" && Number.isFinite(Number(text))) found[key] = Number(text);
  }
  return found as Wanted;
}

export function requestOf(wanted: Wanted): ScheduleRequest {
  const { against, ...rest } = wanted;
  return against ? { ...rest, against } : rest;
}
