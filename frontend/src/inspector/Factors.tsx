import { ActionIcon, Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { Choice, FactorView, NodeView } from "../api/types";
import { axesNow, followAgain, toggleAxis } from "../commands/edits";
import type { Reach } from "../document/layers";
import { formatInteger } from "../document/units";
import { chipColour } from "../ui/AxisChip";
import chips from "../ui/chips.module.css";
import { textOn } from "../ui/colour";
import { Icon } from "../ui/icons";
import { useColours, useDocument, usePlan } from "../ui/PlanContext";
import { Reason } from "../ui/Reason";
import { ProblemNote } from "../ui/states";
import { useResource } from "../ui/useResource";
import classes from "./inspector.module.css";

const ORDER = ["", "¹", "²", "³", "⁴"];

/** A row per factor, a chip per axis: what may be sharded how, and why not. */
export function Factors({ node, reach }: { node: NodeView; reach: Reach }) {
  const document = useDocument();
  const { id, version } = usePlan((state) => state.plan);
  const mesh = usePlan((state) => state.plan.view.mesh);
  const focused = usePlan((state) => state.factor);
  const answer = useResource(`${id}@${version}/${node.id}`, () => api.choices(id, node.id));
  // Choices of the operator that was selected before would toggle the wrong things.
  const [shown, setShown] = useState<{ node: string; choices: Choice[] } | null>(null);
  useEffect(() => {
    if (answer.data && !answer.loading) setShown({ node: node.name, choices: answer.data });
  }, [answer.data, answer.loading, node.name]);
  const choices = shown?.node === node.name ? shown.choices : [];
  const busy = shown?.node !== node.name && !answer.problem;

  const whole = [...new Set(choices.map((choice) => choice.factor))];
  const drawn = node.factors.map((factor) => factor.name);
  const names = whole.length > 0 ? whole : drawn;

  return (
    <section className={classes["section"]} aria-labelledby="factors">
      <h3 id="factors" className="section-title">
        Factors
      </h3>
      <p className={`mono ${classes["rule"]}`}>{node.rule}</p>
      {answer.problem && <ProblemNote problem={answer.problem} onRetry={answer.reload} />}
      {names.map((name) => (
        <Row
          key={name}
          node={node}
          name={name}
          factor={node.factors.find((factor) => factor.name === name)}
          mesh={mesh}
          choices={choices}
          busy={busy}
          focused={name === focused}
          onToggle={(axis) => {
            document.focusFactor(name);
            // From the newest state: the next click may come before this is drawn.
            const { nodes } = document.getState().view;
            const now = nodes.find((other) => other.id === node.id) ?? node;
            document.edit(toggleAxis(now, choices, name, axis, reach));
          }}
          onFocus={() => document.focusFactor(name)}
        />
      ))}
    </section>
  );
}

function Row({
  node,
  name,
  factor,
  mesh,
  choices,
  busy,
  focused,
  onToggle,
  onFocus,
}: {
  node: NodeView;
  name: string;
  factor: FactorView | undefined;
  mesh: readonly [string, number][];
  choices: readonly Choice[];
  /** The choices are not there yet. */
  busy: boolean;
  focused: boolean;
  onToggle(axis: string): void;
  onFocus(): void;
}) {
  const document = useDocument();
  const refusal = usePlan((state) => state.refusal);
  const mine = refusal?.field === `factor:${name}` ? refusal.problem : null;
  const touches = factor?.touches.map(([slot, dim]) => `${slot}.${dim}`).join(", ");
  const on = axesNow(node, choices, name);

  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset can't be laid out as a grid everywhere.
    <div
      role="group"
      aria-label={`Factor ${name}`}
      className={classes["factor"]}
      data-focused={focused}
      data-testid={`factor:${name}`}
      onFocus={onFocus}
    >
      <div className={classes["factorName"]}>
        <strong>{name}</strong>
        {factor && <span>{formatInteger(factor.size)}</span>}
      </div>
      <div className={classes["chips"]}>
        {mesh.map(([axis, size]) => (
          <ChoiceChip
            key={axis}
            factor={name}
            axis={axis}
            size={size}
            on={on.includes(axis)}
            order={on.length > 1 ? on.indexOf(axis) + 1 : 0}
            choice={choices.find((entry) => entry.factor === name && entry.axis === axis)}
            busy={busy}
            blocked={factor?.reason ?? ""}
            onToggle={() => onToggle(axis)}
          />
        ))}
      </div>
      <div className={classes["pin"]}>
        {factor?.pinned ? (
          <Tooltip label="Decided here. Let it follow the operands again">
            <ActionIcon
              size="sm"
              aria-label={`Let ${name} follow the operands again`}
              data-testid={`release:${name}`}
              onClick={() => document.edit(followAgain(node, name))}
            >
              <Icon name="pin" size={13} />
            </ActionIcon>
          </Tooltip>
        ) : (
          <span className={classes["follows"]} title="Not decided: it follows the operands">
            follows
          </span>
        )}
      </div>
      <p className={classes["factorNote"]}>
        <span data-role={factor?.role}>{factor?.role ?? "of the whole operator"}</span>
        {touches && ` · ${touches}`}
      </p>
      {mine && (
        <div className={classes["factorProblem"]}>
          <ProblemNote problem={mine} />
        </div>
      )}
    </div>
  );
}

function ChoiceChip({
  factor,
  axis,
  size,
  on,
  order,
  choice,
  busy,
  blocked,
  onToggle,
}: {
  factor: string;
  axis: string;
  size: number;
  on: boolean;
  /** Place among several axes of a factor, major first; 0 if it is the only one. */
  order: number;
  choice: Choice | undefined;
  busy: boolean;
  blocked: string;
  onToggle(): void;
}) {
  const colours = useColours();
  const colour = colours[axis] ?? "#808a98";
  const illegal = choice !== undefined && !choice.legal && choice.on === on;
  const from = choice?.sets.find(([name, axes]) => name !== factor && !axes.includes(axis))?.[0];
  const reason = illegal ? choice.reason || blocked : "";
  const effect = on
    ? `Take ${axis} off ${factor}`
    : from
      ? `Move ${axis} from ${from} to ${factor}`
      : `Split ${factor} over ${axis}`;
  // A tooltip only where it tells what the chip does not: it would cover the chips beside it.
  const tip = illegal ? (
    <>
      {reason}
      {choice.remedy && <span className={classes["remedy"]}>{choice.remedy}</span>}
    </>
  ) : from && !on ? (
    effect
  ) : null;
  return (
    <Reason label={tip}>
      <button
        type="button"
        className={chips["toggle"]}
        style={on ? { background: colour, color: textOn(colour) } : chipColour(colour)}
        aria-label={`${axis} on ${factor}`}
        aria-pressed={on}
        aria-disabled={illegal || !choice}
        aria-busy={busy}
        aria-description={illegal ? `${reason} ${choice.remedy}` : effect}
        data-cut={on ? `÷${size}${ORDER[order] ?? ""}` : undefined}
        data-testid={`chip:${factor}:${axis}`}
        onClick={() => {
          if (!illegal && choice) onToggle();
        }}
      >
        {!on && <i className={chips["dot"]} />}
        <span className={chips["name"]}>{axis}</span>
      </button>
    </Reason>
  );
}
