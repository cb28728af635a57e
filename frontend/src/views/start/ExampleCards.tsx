import type { NewPlan, Problem } from "../../api/types";
import { AxisChip } from "../../ui/AxisChip";
import { axisColours } from "../../ui/colour";
import { ProblemNote } from "../../ui/states";
import { EXAMPLES } from "./examples";
import classes from "./StartPage.module.css";

export function ExampleCards({
  busy,
  problemAt,
  onCreate,
}: {
  busy: string | null;
  problemAt(at: string): Problem | null;
  onCreate(at: string, plan: NewPlan): void;
}) {
  return (
    <div className={classes["cards"]}>
      {EXAMPLES.map(({ title, text, plan }) => {
        const colours = axisColours(plan.mesh.map((axis) => axis.name));
        const problem = problemAt(title);
        return (
          <div key={title}>
            <button
              type="button"
              className={classes["card"]}
              aria-busy={busy === title}
              disabled={busy !== null}
              data-testid={`example:${plan.model}`}
              onClick={() => onCreate(title, plan)}
            >
              <span className={classes["cardTitle"]}>{title}</span>
              <span className={classes["cardText"]}>{text}</span>
              <span className={classes["cardFoot"]}>
                {plan.mesh.map((axis) => (
                  <AxisChip
                    key={axis.name}
                    name={axis.name}
                    suffix={String(axis.size)}
                    colour={colours[axis.name]}
                    small
                  />
                ))}
                {plan.global_batch}
                {plan.seq ? ` × ${plan.seq.toLocaleString("en-US")} tokens` : " samples"}
              </span>
            </button>
            {problem && <ProblemNote problem={problem} />}
          </div>
        );
      })}
    </div>
  );
}
