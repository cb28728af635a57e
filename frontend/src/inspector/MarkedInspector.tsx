import { useMemo } from "react";
import { api } from "../api/client";
import type { NodeView } from "../api/types";
import {
  changedBy,
  type Marked,
  type Shared,
  sharedAxis,
  sharedFactors,
  toggleShared,
} from "../commands/edits";
import { formatInteger } from "../document/units";
import { chipColour } from "../ui/AxisChip";
import chips from "../ui/chips.module.css";
import { textOn } from "../ui/colour";
import { useColours, useDocument, usePlan } from "../ui/PlanContext";
import { Reason } from "../ui/Reason";
import { Loading, ProblemNote } from "../ui/states";
import { useResource } from "../ui/useResource";
import classes from "./inspector.module.css";

/** What may be clicked is asked for each of them. */
const MOST = 48;
const PRESSED: Record<Shared, boolean | "mixed"> = { on: true, off: false, mixed: "mixed" };

/** Several operators at once: the factors that all of them have. */
export function MarkedInspector({ nodes }: { nodes: readonly NodeView[] }) {
  const document = useDocument();
  const { id, version } = usePlan((state) => state.plan);
  const mesh = usePlan((state) => state.plan.view.mesh);
  const refusal = usePlan((state) => state.refusal);
  const many = nodes.length > MOST;
  const ids = nodes.map((node) => node.id);
  const answer = useResource(many ? null : `${id}@${version}/${ids.join("|")}`, () =>
    Promise.all(ids.map(async (node) => ({ id: node, choices: await api.choices(id, node) }))),
  );
  const marked = useMemo(
    (): Marked[] =>
      (answer.data ?? []).flatMap((found) => {
        const node = nodes.find((other) => other.id === found.id);
        return node ? [{ node, choices: found.choices }] : [];
      }),
    [answer.data, nodes],
  );
  const complete = marked.length === nodes.length;
  const factors = complete ? sharedFactors(marked) : [];
  return (
    <>
      <header className={classes["head"]}>
        <h2 data-testid="inspected">{formatInteger(nodes.length)} operators</h2>
        <p>An edit here is made in all of them, as one step.</p>
      </header>
      <section className={classes["section"]} aria-labelledby="shared-factors">
        <h3 id="shared-factors" className="section-title">
          Factors that all have
        </h3>
        {many && <p className={classes["quiet"]}>At most {MOST} can be edited at once.</p>}
        {answer.problem && <ProblemNote problem={answer.problem} onRetry={answer.reload} />}
        {!many && !complete && !answer.problem && <Loading label="Loading choices" rows={3} />}
        {complete && factors.length === 0 && (
          <p className={classes["quiet"]}>They have no factor in common.</p>
        )}
        {factors.map((factor) => (
          // biome-ignore lint/a11y/useSemanticElements: a fieldset can't be laid out as a grid everywhere.
          <div
            key={factor}
            role="group"
            aria-label={`Factor ${factor}`}
            className={classes["factor"]}
          >
            <div className={classes["factorName"]}>
              <strong>{factor}</strong>
            </div>
            <div className={classes["chips"]}>
              {mesh.map(([axis]) => (
                <SharedChip
                  key={axis}
                  marked={marked}
                  factor={factor}
                  axis={axis}
                  onToggle={() => document.edit(toggleShared(marked, factor, axis))}
                />
              ))}
            </div>
          </div>
        ))}
        {refusal?.field === "marked" && <ProblemNote problem={refusal.problem} />}
      </section>
      <section className={classes["section"]} aria-labelledby="marked">
        <h3 id="marked" className="section-title">
          Operators
        </h3>
        <ul className={classes["list"]}>
          {nodes.map((node) => (
            <li key={node.id}>
              <button type="button" className="link" onClick={() => document.select(node.id)}>
                {node.label}
              </button>{" "}
              <span className={classes["way"]}>{node.op}</span>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

function SharedChip({
  marked,
  factor,
  axis,
  onToggle,
}: {
  marked: readonly Marked[];
  factor: string;
  axis: string;
  onToggle(): void;
}) {
  const colours = useColours();
  const colour = colours[axis] ?? "#808a98";
  const state = sharedAxis(marked, factor, axis);
  const against = changedBy(marked, factor, axis).flatMap(({ node, choices }) => {
    const choice = choices.find((entry) => entry.factor === factor && entry.axis === axis);
    return choice && !choice.legal ? [{ node, choice }] : [];
  })[0];
  const reason = against && `${against.node.label}: ${against.choice.reason}`;
  return (
    <Reason label={reason ?? null}>
      <button
        type="button"
        className={chips["toggle"]}
        style={state === "on" ? { background: colour, color: textOn(colour) } : chipColour(colour)}
        aria-label={`${axis} on ${factor}`}
        aria-pressed={PRESSED[state]}
        aria-disabled={against !== undefined}
        aria-description={reason ?? (state === "mixed" ? "on some of them" : undefined)}
        data-cut={state === "mixed" ? "mixed" : undefined}
        data-testid={`shared:${factor}:${axis}`}
        onClick={() => against === undefined && onToggle()}
      >
        {state !== "on" && <i className={chips["dot"]} />}
        <span className={chips["name"]}>{axis}</span>
      </button>
    </Reason>
  );
}
