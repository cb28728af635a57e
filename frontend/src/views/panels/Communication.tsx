import { useMemo, useState } from "react";
import { api } from "../../api/client";
import type { CollectiveRow, PlanView } from "../../api/types";
import { formatBytes, formatInteger, formatSeconds } from "../../document/units";
import { AxisChip } from "../../ui/AxisChip";
import { longKind, shortKind } from "../../ui/colour";
import { useColours, useDocument, usePlan, useReport } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Empty, Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import { Plot } from "./Plot";
import classes from "./panels.module.css";

type Key = "phase" | "kind" | "value" | "payload" | "seconds" | "total";

const SORT: Record<Key, (row: CollectiveRow) => number | string> = {
  phase: (row) => row.phase,
  kind: (row) => row.kind,
  value: (row) => row.value,
  payload: (row) => -row.payload_bytes,
  seconds: (row) => -row.seconds,
  total: (row) => -row.seconds * row.count,
};

/** The node that a collective's row is about: who makes the value, or else reads it. */
function nodeOfRow(view: PlanView, scope: string, value: string): string | null {
  const edge = view.edges.find((candidate) => candidate.id === `${scope}:${value}`);
  return edge ? edge.producer || edge.readers[0] || null : null;
}

/** The bar of the figure that a collective is part of. */
function barOf(row: CollectiveRow): string {
  return `${row.kind} · ${row.axes.join("·")}`;
}

export default function Communication({ dark }: { dark: boolean }) {
  const document = useDocument();
  const { id, version } = usePlan((state) => state.plan);
  const view = usePlan((state) => state.plan.view);
  const colours = useColours();
  const report = useReport(true);
  const figure = useResource(`${id}@${version}`, () => api.figure(id, "communication"));
  const [sort, setSort] = useState<Key>("total");
  const rows = useMemo(() => {
    const by = SORT[sort];
    return [...(report.data?.collectives ?? [])].sort((a, b) =>
      by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0,
    );
  }, [report.data, sort]);

  if (report.problem) return <ProblemNote problem={report.problem} onRetry={report.reload} />;
  if (!report.data) return <Loading label="Loading collectives" />;
  if (rows.length === 0) {
    return (
      <Empty title="No communication">
        <p>
          Nothing is moved between ranks: no factor is sharded, or no value needs another layout.
        </p>
      </Empty>
    );
  }
  const head = (key: Key, text: string, number = false) => (
    <th
      scope="col"
      aria-sort={sort === key ? (number ? "descending" : "ascending") : undefined}
      className={number ? classes["number"] : undefined}
    >
      <button type="button" className="plain-button" onClick={() => setSort(key)}>
        {text}
        {sort === key && (number ? " ↓" : " ↑")}
      </button>
    </th>
  );
  return (
    <div className={classes["split"]}>
      <div className={classes["figure"]}>
        {figure.problem && <ProblemNote problem={figure.problem} onRetry={figure.reload} />}
        {figure.data && (
          <Plot
            figure={figure.data}
            dark={dark}
            label="Time of collectives by kind and axis; the table beside it has the same numbers"
            onClick={({ x, data }) => {
              const costliest = report.data?.collectives
                .filter((row) => barOf(row) === x && row.phase === data.name)
                .sort((a, b) => b.seconds * b.count - a.seconds * a.count)[0];
              const node = costliest && nodeOfRow(view, costliest.scope, costliest.value);
              if (node) document.select(node);
            }}
          />
        )}
      </div>
      <ScrollRegion label="Collectives" className={classes["scroll"]}>
        <table className={classes["table"]}>
          <thead>
            <tr>
              {head("kind", "Collective")}
              {head("phase", "Phase")}
              {head("value", "Value")}
              {head("payload", "Payload", true)}
              {head("seconds", "One", true)}
              <th scope="col" className={classes["number"]}>
                Times
              </th>
              {head("total", "In a step", true)}
              <th scope="col">Layouts</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, position) => {
              const node = nodeOfRow(view, row.scope, row.value);
              return (
                <tr key={position}>
                  <td>
                    <abbr title={longKind(row.kind)}>{shortKind(row.kind)}</abbr>{" "}
                    {row.axes.map((axis) => (
                      <AxisChip key={axis} name={axis} colour={colours[axis]} small />
                    ))}
                  </td>
                  <td>{row.phase}</td>
                  <td className={classes["wide"]}>
                    {node ? (
                      <button type="button" className="link" onClick={() => document.select(node)}>
                        {row.value}
                      </button>
                    ) : (
                      row.value
                    )}
                  </td>
                  <td className={classes["number"]}>{formatBytes(row.payload_bytes)}</td>
                  <td className={classes["number"]}>{formatSeconds(row.seconds)}</td>
                  <td className={classes["number"]}>{formatInteger(row.count)}</td>
                  <td className={classes["number"]}>{formatSeconds(row.seconds * row.count)}</td>
                  <td className="mono">
                    {row.source} → {row.target}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </ScrollRegion>
    </div>
  );
}
