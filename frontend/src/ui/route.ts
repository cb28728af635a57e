// Addresses of the page: `/` is the start page, `/plans/…` a plan, `/redistribute?…` and `/pipeline?…` tools. The server answers all
// with the same file.
import { type MouseEvent, useSyncExternalStore } from "react";
import { type Fields, queryOf } from "../document/redistribution";
import { queryOf as scheduleQuery, type Wanted } from "../document/schedules";

const PLAN = /^\/plans\/([\w-]+)\/?$/;
const REDISTRIBUTE = "/redistribute";
const PIPELINE = "/pipeline";
const MOVED = "shardwright-moved";

function subscribe(change: () => void): () => void {
  window.addEventListener("popstate", change);
  window.addEventListener(MOVED, change);
  return () => {
    window.removeEventListener("popstate", change);
    window.removeEventListener(MOVED, change);
  };
}

export type Route = { page: "start" | "redistribute" | "pipeline" } | { page: "plan"; id: string };

/** What the address names; anything unknown is the start page. */
export function useRoute(): Route {
  const path = useSyncExternalStore(subscribe, () => window.location.pathname);
  const id = PLAN.exec(path)?.[1];
  if (id !== undefined) return { page: "plan", id };
  const tool = path.replace(/\/$/, "");
  if (tool === PIPELINE) return { page: "pipeline" };
  return { page: tool === REDISTRIBUTE ? "redistribute" : "start" };
}

function goTo(path: string): void {
  window.history.pushState(null, "", path);
  window.dispatchEvent(new Event(MOVED));
}

export const START = "/";
export const planPath = (id: string) => `/plans/${id}`;
export const goToPlan = (id: string) => goTo(planPath(id));
export const goToStart = () => goTo(START);
export const redistributionPath = (fields?: Fields) =>
  fields ? `${REDISTRIBUTE}?${queryOf(fields)}` : REDISTRIBUTE;

export const pipelinePath = (wanted?: Wanted) => {
  const query = wanted ? scheduleQuery(wanted) : "";
  return query ? `${PIPELINE}?${query}` : PIPELINE;
};

/** Changes the address of what is shown, without another entry in the history. */
export function replaceWith(path: string): void {
  window.history.replaceState(null, "", path);
}

/** For a link within the page: follows a plain click without loading anything again. */
export function follow(event: MouseEvent<HTMLAnchorElement>): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  event.preventDefault();
  goTo(event.currentTarget.pathname + event.currentTarget.search);
}
