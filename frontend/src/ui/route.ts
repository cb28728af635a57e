// Addresses of the page: `/` is the start page, `/plans/…` a plan. The server answers both with the same file.
import { type MouseEvent, useSyncExternalStore } from "react";

const PLAN = /^\/plans\/([\w-]+)\/?$/;
const MOVED = "shardwright-moved";

function subscribe(change: () => void): () => void {
  window.addEventListener("popstate", change);
  window.addEventListener(MOVED, change);
  return () => {
    window.removeEventListener("popstate", change);
    window.removeEventListener(MOVED, change);
  };
}

/** Id of the plan that the address names; null for the start page. */
export function usePlanRoute(): string | null {
  const path = useSyncExternalStore(subscribe, () => window.location.pathname);
  return PLAN.exec(path)?.[1] ?? null;
}

function goTo(path: string): void {
  window.history.pushState(null, "", path);
  window.dispatchEvent(new Event(MOVED));
}

export const START = "/";
export const planPath = (id: string) => `/plans/${id}`;
export const goToPlan = (id: string) => goTo(planPath(id));
export const goToStart = () => goTo(START);

/** For a link within the page: follows a plain click without loading anything again. */
export function follow(event: MouseEvent<HTMLAnchorElement>): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  event.preventDefault();
  goTo(event.currentTarget.pathname);
}
