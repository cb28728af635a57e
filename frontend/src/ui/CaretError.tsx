import type { Problem } from "../api/types";
import { around } from "../document/redistribution";
import classes from "./CaretError.module.css";

const WIDTH = 40;

/** A refusal of a typed text: the text with the place marked, then the sentence and the remedy. */
export function CaretError({ problem }: { problem: Problem }) {
  const { place } = problem;
  const text = place && around(place, WIDTH);
  return (
    <span className={classes["error"]} role="alert" data-code={problem.code}>
      {text && (
        <span className={`mono ${classes["text"]}`} data-testid="caret">
          {text.before}
          <mark>{text.marked}</mark>
          {text.after}
        </span>
      )}
      <span>{problem.detail}</span>
      {problem.hint && <span className={classes["hint"]}>{problem.hint}</span>}
    </span>
  );
}
