import { useCallback, useEffect, useRef, useState } from "react";
import { api, problemOf } from "../../api/client";
import type { Problem, ScheduleAnswer } from "../../api/types";
import { requestOf, type Wanted } from "../../document/schedules";

const PAUSE_MS = 200;

/** What is chosen and the last answer to it; every change asks again, and a refusal loses neither. */
export function useSchedules(first: Wanted, onAnswer: (wanted: Wanted) => void) {
  const [wanted, setWanted] = useState(first);
  const [answer, setAnswer] = useState<ScheduleAnswer | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(true);
  const told = useRef(onAnswer);
  told.current = onAnswer;

  useEffect(() => {
    let current = true;
    setBusy(true);
    // While somebody types, only the last number is asked for.
    const timer = setTimeout(async () => {
      try {
        const found = await api.schedule(requestOf(wanted));
        if (!current) return;
        setAnswer(found);
        setProblem(null);
        told.current(wanted);
      } catch (error) {
        if (current) setProblem(problemOf(error));
      }
      if (current) setBusy(false);
    }, PAUSE_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [wanted]);

  const set = useCallback(
    (change: Partial<Wanted>) => setWanted((before) => ({ ...before, ...change })),
    [],
  );
  return { wanted, answer, problem, busy, set };
}

export type Schedules = ReturnType<typeof useSchedules>;
