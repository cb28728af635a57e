import { Button, Progress } from "@mantine/core";
import type { Job } from "../../api/types";
import { Icon } from "../../ui/icons";
import { usePlan, useRegistry } from "../../ui/PlanContext";
import { Empty, ProblemNote } from "../../ui/states";
import { ProofResult } from "./ProofResult";
import classes from "./panels.module.css";
import type { ProofRun } from "./useProof";

/** Runs the exported code on ranks and compares every gradient with the unsharded model's. */
export default function Prove({ proof }: { proof: ProofRun }) {
  const { job, problem, running, start, cancel } = proof;
  const version = usePlan((state) => state.plan.version);
  const { torch } = useRegistry();

  if (!torch) {
    return (
      <Empty title="Proving needs torch, which this server does not have">
        <p>
          Add it with <code>pip install 'shardwright[torch]'</code>, or from a checkout with{" "}
          <code>make run TORCH=1</code>, and start the server again. Everything else works without.
        </p>
      </Empty>
    );
  }
  const old = job !== null && job.version !== version;
  return (
    <div className={classes["prove"]}>
      <div className={classes["proveHead"]}>
        {running ? (
          <Button variant="default" leftSection={<Icon name="stop" size={12} />} onClick={cancel}>
            Cancel
          </Button>
        ) : (
          <Button leftSection={<Icon name="play" size={12} />} onClick={start}>
            {job ? "Prove again" : "Prove this plan"}
          </Button>
        )}
        {!job && !problem && (
          <p>
            Runs the exported code at reduced sizes on processes of the server, and holds the loss
            and every gradient on every rank to the unsharded model in float64.
          </p>
        )}
        {job && running && (
          <div className={classes["progress"]}>
            <Progress
              value={job.progress * 100}
              aria-label="Progress of the proof"
              transitionDuration={150}
            />
            <p role="status">{job.message || job.state}</p>
          </div>
        )}
        {job && !running && <Verdict job={job} />}
        {old && !running && (
          <p className={classes["warn"]}>
            <Icon name="warning" size={13} /> The plan was changed since.
          </p>
        )}
      </div>
      {problem && <ProblemNote problem={problem} onRetry={start} />}
      {job?.problem && <ProblemNote problem={job.problem} />}
      {job?.result && <ProofResult proof={job.result} />}
    </div>
  );
}

function Verdict({ job }: { job: Job }) {
  if (job.state === "cancelled") return <p role="status">Cancelled.</p>;
  if (!job.result) return null;
  const { ok, rows, failures, collectives } = job.result;
  const wrong = rows.filter((row) => !row.ok).length;
  const said = [
    failures.length > 0 && `${failures.length} of the ranks failed.`,
    wrong > 0 && `Not equal to the unsharded model: ${wrong} of ${rows.length} differ.`,
    failures.length === 0 && collectives.length > 0 && "Other collectives ran than were planned.",
  ].filter((text) => text !== false);
  return (
    <p role="status" className={ok ? classes["good"] : classes["bad"]} data-testid="verdict">
      <Icon name={ok ? "check" : "error"} size={14} />
      {ok
        ? `Equal to the unsharded model: loss and ${rows.length - 1} gradients.`
        : said.join(" ") || "Nothing was compared."}
    </p>
  );
}
