import { useSyncExternalStore } from "react";

// Behind the `#`, so that the page works at any address without the server's help.
const PLAN = /^#\/plans\/([\w-]+)$/;

function subscribe(change: () => void): () => void {
  window.addEventListener("hashchange", change);
  return () => window.removeEventListener("hashchange", change);
}

/** Id of the plan that the address names; null for the start page. */
export function usePlanRoute(): string | null {
  const hash = useSyncExternalStore(subscribe, () => window.location.hash);
  return PLAN.exec(hash)?.[1] ?? null;
}

export function goToPlan(id: string): void {
  window.location.hash = `#/plans/${id}`;
}

export function goToStart(): void {
  window.location.hash = "#/";
}
