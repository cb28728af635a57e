import { Switch } from "@mantine/core";
import type { EdgeView, NodeView } from "../api/types";
import { storeParameter } from "../commands/edits";
import { place } from "../commands/training";
import { nameOf } from "../document/code";
import { type Reach, targetFor } from "../document/layers";
import { PLACED, placeOf, wantedPlace } from "../document/training";
import { formatBytes } from "../document/units";
import { chipColour } from "../ui/AxisChip";
import { Cells } from "../ui/Cells";
import chips from "../ui/chips.module.css";
import { textOn } from "../ui/colour";
import { useColours, useDocument, usePlan } from "../ui/PlanContext";
import { ProblemNote } from "../ui/states";
import { CodeButton } from "./CodeButton";
import classes from "./inspector.module.css";
import { PlaceControl } from "./Places";
import { Refusal } from "./Refusal";
import { dimNames, SliceButton } from "./SliceButton";
import { CollectiveBadge } from "./Traffic";
import { useCurrentEdge } from "./useCurrentEdge";

/** Where the operator's parameters lie: as read, or sharded further (ZeRO). */
export function Storage({ node, reach }: { node: NodeView; reach: Reach }) {
  const view = usePlan((state) => state.view);
  const edges = view.edges.filter(
    (edge) => edge.kind === "parameter" && edge.readers.includes(node.id),
  );
  if (edges.length === 0) return null;
  return (
    <section className={classes["section"]} aria-labelledby="storage">
      <h3 id="storage" className="section-title">
        Parameter storage
      </h3>
      {edges.map((edge) => (
        <Parameter key={edge.id} edge={edge} node={node} reach={reach} />
      ))}
    </section>
  );
}

function Parameter({ edge, node, reach }: { edge: EdgeView; node: NodeView; reach: Reach }) {
  const document = useDocument();
  const mesh = usePlan((state) => state.plan.view.mesh);
  const { current, row } = useCurrentEdge(edge.id);
  const refusal = usePlan((state) => state.refusal);
  const unsent = usePlan((state) => state.unsent);
  const colours = useColours();
  const read = node.operands.find((operand) => operand.value === edge.value);
  const readAxes = new Set(read?.cells.flatMap((cell) => cell.axes));
  const stored = edge.tensor.cells.flatMap((cell) => cell.axes);
  const extra = stored.filter((axis) => !readAxes.has(axis));
  const change = (axes: string[], regather: boolean) =>
    document.edit(storeParameter(edge.value, extra, axes, regather, reach));
  const target = edge.value.replaceAll("/", ".");

  return (
    <div
      ref={row}
      className={classes["tensor"]}
      data-current={current}
      data-testid={`edge:${edge.id}`}
    >
      <div className={classes["tensorHead"]}>
        <strong>{edge.label}</strong>
        <span>{edge.tensor.dtype}</span>
        <span className={classes["right"]}>{formatBytes(edge.tensor.local_bytes)}</span>
        {edge.badges.length > 0 && (
          <CodeButton part={{ kind: "edge", id: edge.id }} of={nameOf(edge)} />
        )}
        <SliceButton
          of={{
            node: edge.id,
            slot: "",
            title: `${edge.label} as it is stored`,
            dims: dimNames(read ?? edge.tensor),
            dtype: edge.tensor.dtype,
          }}
        />
      </div>
      <Cells tensor={edge.tensor} colours={colours} />
      <p className={`mono ${classes["layout"]}`}>
        stored {edge.tensor.layout} · gradient {edge.gradient || "none"}
        {edge.deferred && " once a step"}
        {edge.optimizer !== edge.gradient && ` · optimizer ${edge.optimizer}`}
      </p>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset would add a border of its own. */}
      <div className={classes["zero"]} role="group" aria-label={`Shard ${edge.label} further over`}>
        <span>Shard further</span>
        {mesh.map(([axis]) => {
          const colour = colours[axis] ?? "#808a98";
          const on = extra.includes(axis);
          const taken = readAxes.has(axis);
          return (
            <button
              key={axis}
              type="button"
              className={chips["toggle"]}
              style={on ? { background: colour, color: textOn(colour) } : chipColour(colour)}
              aria-pressed={on}
              aria-disabled={taken}
              aria-label={`Store ${edge.label} sharded over ${axis}`}
              title={taken ? `${axis} shards it already where it is read` : undefined}
              data-testid={`store:${edge.label}:${axis}`}
              onClick={() => {
                if (taken) return;
                const axes = on ? extra.filter((other) => other !== axis) : [...extra, axis];
                change(axes, axes.length > 0 && (edge.regather || extra.length === 0));
              }}
            >
              {!on && <i className={chips["dot"]} />}
              <span className={chips["name"]}>{axis}</span>
            </button>
          );
        })}
      </div>
      {extra.length > 0 && (
        <Switch
          size="xs"
          label="Drop after forward, fetch again in backward"
          checked={edge.regather}
          onChange={(event) => change(extra, event.currentTarget.checked)}
        />
      )}
      {PLACED.map((of) => (
        <PlaceControl
          key={of}
          of={of}
          whose={edge.label}
          value={wantedPlace(unsent, targetFor(target, reach), of) ?? placeOf(edge, of)}
          onChange={(where) => document.edit(place(target, of, where, reach))}
        />
      ))}
      <Refusal field={`place:${target}`} />
      {refusal?.field === `parameter:${edge.value}` && <ProblemNote problem={refusal.problem} />}
      <ul className={classes["badges"]}>
        {edge.badges.map((badge, position) => (
          <li key={position}>
            <CollectiveBadge edge={edge} badge={badge} />
          </li>
        ))}
      </ul>
    </div>
  );
}
