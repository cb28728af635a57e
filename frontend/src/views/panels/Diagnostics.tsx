import type { Diagnostic } from "../../api/types";
import { Icon, type IconName } from "../../ui/icons";
import { useDocument, usePlan } from "../../ui/PlanContext";
import { Empty } from "../../ui/states";
import classes from "./panels.module.css";

const ICONS: Record<Diagnostic["severity"], IconName> = {
  error: "error",
  warning: "warning",
  note: "note",
};

export default function Diagnostics() {
  const document = useDocument();
  const found = usePlan((state) => state.plan.summary.diagnostics);
  const nodes = usePlan((state) => state.plan.view.nodes);
  if (found.length === 0) {
    return (
      <Empty title="Nothing to report">
        <p>The plan is legal and fits the devices.</p>
      </Empty>
    );
  }
  return (
    <ul className={classes["diagnostics"]}>
      {found.map((diagnostic, position) => {
        const node = nodes.find(({ name }) => name === diagnostic.subject);
        return (
          <li key={position} data-severity={diagnostic.severity}>
            <Icon name={ICONS[diagnostic.severity]} />
            <div>
              <p>
                <span className="visually-hidden">{diagnostic.severity}: </span>
                {diagnostic.message}
              </p>
              {diagnostic.hint && <p className={classes["hint"]}>{diagnostic.hint}</p>}
              <p className={classes["hint"]}>
                <code>{diagnostic.code}</code>
                {node && (
                  <>
                    {" · "}
                    <button type="button" className="link" onClick={() => document.select(node.id)}>
                      {node.label}
                    </button>
                  </>
                )}
              </p>
            </div>
          </li>
        );
      })}
    </ul>
  );
}
