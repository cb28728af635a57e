import { useCallback, useEffect, useRef, useState } from "react";
import { problemOf } from "../api/client";
import type { Problem } from "../api/types";

export interface Resource<T> {
  data: T | undefined;
  problem: Problem | undefined;
  /** True while what is shown is not (or no longer) the answer for the current key. */
  loading: boolean;
  reload(): void;
}

/** Fetches when `key` changes and keeps the last answer on screen until the next is there; null fetches nothing. */
export function useResource<T>(key: string | null, fetch: () => Promise<T>): Resource<T> {
  const [answer, setAnswer] = useState<{ key: string; data?: T; problem?: Problem }>();
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(fetch);
  latest.current = fetch;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `attempt` is what asks again.
  useEffect(() => {
    if (key === null) return;
    let current = true;
    latest.current().then(
      (data) => current && setAnswer({ key, data }),
      (error: unknown) =>
        current && setAnswer((before) => ({ key, data: before?.data, problem: problemOf(error) })),
    );
    return () => {
      current = false;
    };
  }, [key, attempt]);

  const reload = useCallback(() => {
    setAnswer((before) => before && { ...before, key: "" });
    setAttempt((count) => count + 1);
  }, []);
  return {
    data: answer?.data,
    problem: answer?.key === key ? answer?.problem : undefined,
    loading: key !== null && answer?.key !== key,
    reload,
  };
}
