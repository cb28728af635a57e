import { api } from "../../api/client";
import { type JobRun, useJob } from "../../ui/useJob";

export interface ProofRun extends Omit<JobRun, "start"> {
  start(): Promise<void>;
}

/** A proof as a job of the server. */
export function useProof(plan: string): ProofRun {
  const run = useJob();
  return { ...run, start: () => run.start(() => api.prove(plan)) };
}
