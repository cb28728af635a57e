import { useEffect, useState } from "react";
import { api, problemOf } from "../api/client";
import type { Job, Problem } from "../api/types";

const OVER: readonly string[] = ["done", "failed", "cancelled"];

export interface JobRun {
  job: Job | null;
  problem: Problem | null;
  running: boolean;
  start(ask: () => Promise<Job>): Promise<void>;
  cancel(): Promise<void>;
  /** Forgets a job that is over, and what went wrong. */
  clear(): void;
}

/** A job of the server, followed while it runs. */
export function useJob(): JobRun {
  const [job, setJob] = useState<Job | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const running = job !== null && !OVER.includes(job.state);
  const watched = running ? job.id : null;

  useEffect(() => {
    if (!watched) return;
    const events = new EventSource(api.jobEventsAddress(watched));
    events.onmessage = (event: MessageEvent<string>) => {
      const next = JSON.parse(event.data) as Job;
      setJob(next);
      if (OVER.includes(next.state)) events.close();
    };
    // A stream that breaks off: ask once how it ended.
    events.onerror = () => {
      events.close();
      api.job(watched).then(setJob, (error: unknown) => {
        setJob(null);
        setProblem(problemOf(error));
      });
    };
    return () => events.close();
  }, [watched]);

  async function run(ask: () => Promise<Job>) {
    setProblem(null);
    try {
      setJob(await ask());
    } catch (error) {
      setProblem(problemOf(error));
    }
  }
  return {
    job,
    problem,
    running,
    start: (ask) => {
      setJob(null);
      return run(ask);
    },
    clear: () => {
      setJob(null);
      setProblem(null);
    },
    cancel: async () => {
      if (job) await run(() => api.cancelJob(job.id));
    },
  };
}
