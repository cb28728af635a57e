import type { Proof, ProofRow } from "../../api/types";
import { suspects, worstFirst } from "../../document/proof";
import { formatInteger } from "../../document/units";
import { Icon } from "../../ui/icons";
import { useDocument, usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import classes from "./panels.module.css";

/** A proof row by row, what differs first; a row that differs leads to the operator and the edge at fault. */
export function ProofResult({ proof }: { proof: Proof }) {
  return (
    <div className={classes["proof"]}>
      <ScrollRegion label="Errors by parameter" className={classes["scroll"]}>
        <table className={classes["table"]} data-testid="proof">
          <caption className="visually-hidden">
            Loss and gradients, sharded against unsharded, those that differ first
          </caption>
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
              <th scope="col">Look at</th>
            </tr>
          </thead>
          <tbody>
            {worstFirst(proof.rows).map((row) => (
              <Row key={row.name} row={row} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <ScrollRegion label="What was compared" className={classes["proofNotes"]}>
        <Failures proof={proof} />
        <Collectives proof={proof} />
        <section>
          <h3 className="section-title">Ran on</h3>
          <p>{proof.mesh.axes.map(([name, size]) => `${name} ${size}`).join(" × ")}</p>
        </section>
        {proof.uncovered.length > 0 && (
          <section>
            <h3 className="section-title">Not covered</h3>
            <Notes texts={proof.uncovered} />
          </section>
        )}
      </ScrollRegion>
    </div>
  );
}

function Row({ row }: { row: ProofRow }) {
  const document = useDocument();
  const view = usePlan((state) => state.plan.view);
  const { node, edge } = suspects(view, row);
  return (
    <tr data-ok={row.ok}>
      <td>
        <span className="mono">{row.name}</span>
        {row.hint && <span className={classes["rowHint"]}>{row.hint}</span>}
      </td>
      <td className={classes["number"]}>
        {row.error === null ? "not finite" : row.error.toExponential(1)}
      </td>
      <td className={classes["number"]}>{row.rank}</td>
      <td>
        <Icon name={row.ok ? "check" : "error"} size={12} /> {row.ok ? "equal" : "differs"}
      </td>
      <td className={classes["suspects"]}>
        {node && (
          <button
            type="button"
            className="link"
            aria-label={`Select the operator ${node.label}`}
            onClick={() => document.select(node.id)}
          >
            {node.label}
          </button>
        )}
        {edge && (
          <button
            type="button"
            className="link"
            aria-label={`Select the edge ${edge.label}`}
            onClick={() => document.selectEdge(edge.id)}
          >
            edge {edge.label}
          </button>
        )}
      </td>
    </tr>
  );
}

function Failures({ proof }: { proof: Proof }) {
  if (proof.failures.length === 0) return null;
  return (
    <section data-testid="failures">
      <h3 className="section-title">
        {proof.failures.length === 1
          ? "A rank failed"
          : `${formatInteger(proof.failures.length)} ranks failed`}
      </h3>
      <ul className={classes["failures"]}>
        {proof.failures.map((text) => (
          <li key={text}>
            <Icon name="error" size={13} />
            <pre>{text}</pre>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Collectives({ proof }: { proof: Proof }) {
  const { collectives, compared, failures } = proof;
  if (failures.length > 0) return null;
  return (
    <section data-testid="collectives">
      <h3 className="section-title">Collectives</h3>
      {collectives.length === 0 ? (
        <p className={classes["good"]}>
          {compared === 0
            ? "None ran, and none is planned."
            : `${formatInteger(compared)} ran on all ranks together, each as planned: kind, axes and bytes.`}
        </p>
      ) : (
        <>
          <p className={classes["bad"]}>These differ from the plan:</p>
          <Notes texts={collectives} />
        </>
      )}
    </section>
  );
}

function Notes({ texts }: { texts: readonly string[] }) {
  return (
    <ul className={classes["notes"]}>
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}
