import { useState } from "react";
import type { CostItem, NodeView, Report } from "../api/types";
import { formatSeconds } from "../document/units";
import { CostTree } from "../ui/CostTree";
import { Icon } from "../ui/icons";
import { useReport } from "../ui/PlanContext";
import { Loading, ProblemNote } from "../ui/states";
import classes from "./inspector.module.css";

/** What the operator costs; opened, down to the formulas. */
export function Costs({ node }: { node: NodeView }) {
  const [open, setOpen] = useState(false);
  const report = useReport(open);
  const items = report.data ? itemsOf(report.data, node) : [];
  return (
    <section className={classes["section"]} aria-labelledby="node-costs">
      <h3 id="node-costs">
        <button
          type="button"
          className={`plain-button section-title ${classes["opener"]}`}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <Icon name={open ? "chevronDown" : "chevronRight"} size={11} />
          Costs
        </button>
      </h3>
      <dl className={classes["facts"]}>
        <dt>forward</dt>
        <dd>{formatSeconds(node.forward_s)}</dd>
        <dt>backward</dt>
        <dd>{formatSeconds(node.backward_s)}</dd>
      </dl>
      <p className={classes["quiet"]}>
        one layer and microbatch on one rank, without communication
      </p>
      {open && report.problem && <ProblemNote problem={report.problem} onRetry={report.reload} />}
      {open && !report.data && !report.problem && <Loading label="Loading costs" />}
      {open && items.length > 0 && (
        <CostTree items={items} label={`Costs of ${node.label} in a step`} />
      )}
    </section>
  );
}

/** Everything in the report that carries this operator's name or that of one of its parameters. */
function itemsOf(report: Report, node: NodeView): CostItem[] {
  const names = new Set([
    node.name,
    ...node.operands.filter((operand) => operand.parameter).map((operand) => operand.value),
  ]);
  const found: CostItem[] = [];
  const look = (item: CostItem, path: string[]) => {
    const base = item.name.split(": ")[0] ?? "";
    if (names.has(base)) {
      found.push({
        ...item,
        name: [...path, item.name.slice(base.length + 2)].filter(Boolean).join(", "),
      });
      return;
    }
    const scope = item.name === node.scope || item.name === "outside the layers";
    if (scope && item.name !== (node.scope || "outside the layers")) return;
    for (const child of item.children) look(child, scope ? path : [...path, item.name]);
  };
  for (const top of [...report.step_time.children, ...report.memory.children]) look(top, []);
  return found;
}
