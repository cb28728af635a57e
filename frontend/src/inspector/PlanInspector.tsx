import { ActionIcon, Kbd, Select } from "@mantine/core";
import { changePrecision, forget } from "../commands/edits";
import { parameterText, precisionNow } from "../document/training";
import { formatCount, formatInteger } from "../document/units";
import { AxisChip } from "../ui/AxisChip";
import { Icon } from "../ui/icons";
import { useColours, useDocument, usePlan, useRegistry } from "../ui/PlanContext";
import { Gradients } from "./Gradients";
import classes from "./inspector.module.css";
import { MemorySettings } from "./MemorySettings";
import { Refusal } from "./Refusal";
import { Setting } from "./Setting";

/** With nothing selected: what the plan is, and what was decided. */
export function PlanInspector() {
  const document = useDocument();
  const plan = usePlan((state) => state.plan);
  const unsent = usePlan((state) => state.unsent);
  const { precisions } = useRegistry();
  const colours = useColours();
  return (
    <>
      <header className={classes["head"]}>
        <h2>Plan</h2>
        <p>Select an operator in the graph or the outline to see and change how it is sharded.</p>
      </header>
      <section className={classes["section"]} aria-label="Setting">
        <dl className={classes["facts"]}>
          <dt>model</dt>
          <dd>{plan.model.name}</dd>
          <dt>cluster</dt>
          <dd>{plan.cluster}</dd>
          <dt>global batch</dt>
          <dd>
            {formatInteger(plan.global_batch)}
            {plan.seq > 0 ? ` × ${formatInteger(plan.seq)} tokens` : " samples"}
          </dd>
          <dt>microbatches</dt>
          <dd>{formatInteger(plan.microbatches)}</dd>
          <dt>compute in a step</dt>
          <dd>{formatCount(plan.summary.flops)}FLOP</dd>
          <dt>collectives in a step</dt>
          <dd>{formatInteger(plan.summary.collectives)}</dd>
        </dl>
        <Setting label="Precision">
          <Select
            aria-label="Precision"
            data={precisions}
            value={precisionNow(plan, unsent)}
            onChange={(value) => value && document.edit(changePrecision(value))}
          />
        </Setting>
        <Refusal field="precision" />
      </section>
      <Gradients />
      <MemorySettings />
      <section className={classes["section"]} aria-labelledby="decisions">
        <h3 id="decisions" className="section-title">
          Decisions
        </h3>
        {plan.decisions.length === 0 && (
          <p className={classes["quiet"]}>
            Nothing is decided: every tensor is whole on every rank. Begin with a preset.
          </p>
        )}
        <ul className={classes["decisions"]}>
          {plan.decisions.map((decision, position) => (
            <li key={position}>
              <span className={`mono ${classes["decisionTarget"]}`}>{decision.target}</span>
              <span className={classes["decisionWhat"]}>
                {decision.type === "factor" && (
                  <>
                    {decision.factor}
                    {decision.axes.length === 0 && " whole"}
                  </>
                )}
                {decision.type === "keep" && `partial over ${decision.axis}`}
                {decision.type === "recompute" &&
                  (decision.again ? "computed again in backward" : "not computed again")}
                {decision.type === "parameter" && parameterText(decision)}
                {"axes" in decision &&
                  decision.axes.map((axis) => (
                    <AxisChip key={axis} name={axis} colour={colours[axis]} small />
                  ))}
              </span>
              <ActionIcon
                size="sm"
                aria-label={forget(decision).label.replace(/^f/, "F")}
                onClick={() => document.edit(forget(decision))}
              >
                <Icon name="close" size={12} />
              </ActionIcon>
            </li>
          ))}
        </ul>
      </section>
      <section className={classes["section"]} aria-label="Keys">
        <h3 className="section-title">Keys</h3>
        <p className={classes["keys"]}>
          <Kbd size="xs">↑</Kbd> <Kbd size="xs">↓</Kbd> follow edges · <Kbd size="xs">←</Kbd>{" "}
          <Kbd size="xs">→</Kbd> neighbours · <Kbd size="xs">Enter</Kbd> open ·{" "}
          <Kbd size="xs">Shift</Kbd> and drag, or an arrow in the outline, for several ·{" "}
          <Kbd size="xs">F</Kbd> fit · <Kbd size="xs">1</Kbd>–<Kbd size="xs">9</Kbd> toggle an axis
          · <Kbd size="xs">/</Kbd> filter · <Kbd size="xs">?</Kbd> all keys
        </p>
      </section>
    </>
  );
}
