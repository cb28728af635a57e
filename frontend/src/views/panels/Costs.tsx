import { formatMemory, formatSeconds } from "../../document/units";
import { CostTree } from "../../ui/CostTree";
import { useReport } from "../../ui/PlanContext";
import { Loading, ProblemNote } from "../../ui/states";
import classes from "./panels.module.css";

/** Step time and memory as trees; every number opens to its formula. */
export default function Costs() {
  const report = useReport(true);
  if (report.problem) return <ProblemNote problem={report.problem} onRetry={report.reload} />;
  if (!report.data) return <Loading label="Loading costs" />;
  const { step_time, memory, interval, capacity_bytes } = report.data;
  return (
    <div className={classes["halves"]}>
      <section aria-label="Step time">
        <p className={classes["caption"]}>
          An estimate, between {formatSeconds(interval[0])} and {formatSeconds(interval[1])}.
        </p>
        <CostTree items={[step_time]} total={step_time.value} open={1} label="Step time" />
      </section>
      <section aria-label="Memory">
        <p className={classes["caption"]}>
          On the fullest device, which has {formatMemory(capacity_bytes)}.
        </p>
        <CostTree items={[memory]} total={memory.value} open={1} label="Memory" memory />
      </section>
    </div>
  );
}
