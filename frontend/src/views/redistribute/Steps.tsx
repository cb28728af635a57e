import type { RedistributionAnswer, RedistributionStep } from "../../api/types";
import { formatBytes, formatInteger, formatSeconds } from "../../document/units";
import { AxisChip } from "../../ui/AxisChip";
import { longKind } from "../../ui/colour";
import classes from "./Redistribution.module.css";

/** What the way costs, beside the least that any way costs. */
export function Totals({ answer }: { answer: RedistributionAnswer }) {
  const { bound_bytes: bound, received_bytes: received } = answer;
  return (
    <dl className={classes["totals"]} data-testid="totals">
      <div>
        <dt>time, estimate</dt>
        <dd>{formatSeconds(answer.seconds)}</dd>
      </div>
      <div>
        <dt>received by a rank</dt>
        <dd>{formatBytes(received)}</dd>
      </div>
      <div>
        <dt>{answer.bound_of_sums ? "lower bound of sums" : "lower bound"}</dt>
        <dd data-quiet={bound === null}>{bound === null ? "not known" : formatBytes(bound)}</dd>
      </div>
      <div>
        <dt>peak on a rank</dt>
        <dd>{formatBytes(answer.peak_bytes)}</dd>
      </div>
      {answer.staging_bytes !== null && answer.staging_bytes > 0 && (
        <div>
          <dt>and for packing</dt>
          <dd>{formatBytes(answer.staging_bytes)}</dd>
        </div>
      )}
    </dl>
  );
}

/** The steps as a list; a step that is chosen is the one that the picture shows. */
export function Steps({
  answer,
  at,
  colours,
  onGo,
}: {
  answer: RedistributionAnswer;
  at: number;
  colours: Record<string, string>;
  onGo(at: number): void;
}) {
  return (
    <ol className={classes["steps"]} aria-label="Steps">
      <li>
        <button
          type="button"
          className={`plain-button ${classes["step"]}`}
          aria-current={at === 0 ? "step" : undefined}
          onClick={() => onGo(0)}
        >
          <span className={classes["number"]}>0</span>
          <span className={classes["stepHead"]}>
            <strong>start</strong>
          </span>
          <span className={`mono ${classes["stepLayout"]}`}>{answer.source}</span>
        </button>
      </li>
      {answer.steps.map((step, position) => (
        <li key={position}>
          <button
            type="button"
            className={`plain-button ${classes["step"]}`}
            aria-current={at === position + 1 ? "step" : undefined}
            data-testid={`step:${position + 1}`}
            onClick={() => onGo(position + 1)}
          >
            <span className={classes["number"]}>{position + 1}</span>
            <span className={classes["stepHead"]}>
              <strong>{longKind(step.kind)}</strong>
              {step.axes.map((axis) => (
                <AxisChip key={axis} name={axis} colour={colours[axis]} small />
              ))}
              {dimsOf(step) && <span className={classes["quiet"]}>{dimsOf(step)}</span>}
            </span>
            <span className={classes["stepCost"]}>
              {formatBytes(step.received_bytes)} · {formatSeconds(step.seconds)}
            </span>
            <span className={classes["why"]}>
              {step.why}
              {step.group_size > 1 && `; groups of ${formatInteger(step.group_size)}`}
            </span>
            <span className={`mono ${classes["stepLayout"]}`}>{step.target}</span>
          </button>
        </li>
      ))}
    </ol>
  );
}

/** The ways of which none is better in time, bytes, memory and steps. */
export function Front({ answer }: { answer: RedistributionAnswer }) {
  if (answer.front.length === 0) return null;
  return (
    <div className={classes["front"]} data-testid="front">
      <p>No way is better in every respect than one of these.</p>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Received</th>
            <th scope="col">Peak</th>
            <th scope="col">Steps</th>
          </tr>
        </thead>
        <tbody>
          {answer.front.map((way, position) => (
            <tr key={position}>
              <td>{formatSeconds(way.seconds)}</td>
              <td>{formatBytes(way.received_bytes)}</td>
              <td>{formatBytes(way.peak_bytes)}</td>
              <td>{way.steps.map(longKind).join(", then ") || "nothing"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function dimsOf(step: RedistributionStep): string {
  if (step.dim < 0) return "";
  return step.to_dim < 0 ? `dim ${step.dim}` : `dim ${step.dim} → ${step.to_dim}`;
}

/** What a state is, in a sentence. */
export function stateText(answer: RedistributionAnswer, at: number): string {
  const step = answer.steps[at - 1];
  if (!step) return `At the start: ${answer.source}`;
  const dims = dimsOf(step);
  const axes = step.axes.length > 0 ? ` over ${step.axes.join("·")}` : "";
  const over = `${longKind(step.kind)}${axes}${dims && `, ${dims}`}`;
  return `After step ${at} of ${answer.steps.length}, ${over}: ${step.target}`;
}
