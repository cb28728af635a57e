import { Button, Progress } from "@mantine/core";
import type { Job, Proof } from "../../api/types";
import { Icon } from "../../ui/icons";
import { usePlan, useRegistry } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Empty, ProblemNote } from "../../ui/states";
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
      {job?.result && <Result proof={job.result} />}
    </div>
  );
}

function Verdict({ job }: { job: Job }) {
  if (job.state === "cancelled") return <p role="status">Cancelled.</p>;
  if (!job.result) return null;
  const { ok, rows } = job.result;
  const wrong = rows.filter((row) => !row.ok).length;
  return (
    <p role="status" className={ok ? classes["good"] : classes["bad"]} data-testid="verdict">
      <Icon name={ok ? "check" : "error"} size={14} />
      {ok
        ? `Equal to the unsharded model: loss and ${rows.length - 1} gradients.`
        : `Not equal to the unsharded model: ${wrong} of ${rows.length} differ.`}
    </p>
  );
}

function Result({ proof }: { proof: Proof }) {
  const notes = (title: string, texts: readonly string[]) =>
    texts.length > 0 && (
      <section>
        <h3 className="section-title">{title}</h3>
        <ul className={classes["notes"]}>
          {texts.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </section>
    );
  return (
    <div className={classes["proof"]}>
      <ScrollRegion label="Errors by parameter" className={classes["scroll"]}>
        <table className={classes["table"]} data-testid="proof">
          <thead>
            <tr>
              <th scope="col">Loss and parameters</th>
              <th scope="col" className={classes["number"]}>
                Largest error
              </th>
              <th scope="col" className={classes["number"]}>
                on rank
              </th>
              <th scope="col">Verdict</th>
            </tr>
          </thead>
          <tbody>
            {proof.rows.map((row) => (
              <tr key={row.name} data-ok={row.ok}>
                <td className="mono">{row.name}</td>
                <td className={classes["number"]}>
                  {row.error === null ? "not finite" : row.error.toExponential(1)}
                </td>
                <td className={classes["number"]}>{row.rank}</td>
                <td>{row.ok ? "equal" : "differs"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <div className={classes["proofNotes"]}>
        <section>
          <h3 className="section-title">Ran on</h3>
          <p>{proof.mesh.axes.map(([name, size]) => `${name} ${size}`).join(" × ")}</p>
        </section>
        {notes("Failures", proof.failures)}
        {notes("Collectives that differ from the plan", proof.collectives)}
        {notes("Not covered", proof.uncovered)}
      </div>
    </div>
  );
}
