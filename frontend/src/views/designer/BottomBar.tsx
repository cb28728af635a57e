import type { Summary } from "../../api/types";
import {
  formatChange,
  formatCount,
  formatMemory,
  formatPercent,
  formatSeconds,
} from "../../document/units";
import { MEMORY_COLOURS, TIME_COLOURS } from "../../ui/colour";
import { usePlan } from "../../ui/PlanContext";
import { StackedBar } from "../../ui/StackedBar";
import classes from "./BottomBar.module.css";

const throughput = (of: Summary) => of.tokens_per_second ?? of.samples_per_second;

/** The numbers of the plan, and what the last edit did to them. */
export function BottomBar() {
  const summary = usePlan((state) => state.plan.summary);
  const previous = usePlan((state) => state.previous);
  const slow = usePlan((state) => state.slow);
  const roundTrip = usePlan((state) => state.roundTripMs);
  const over = summary.memory_bytes > summary.capacity_bytes;
  const [low, high] = summary.interval_s;

  return (
    <section className={classes["bar"]} aria-label="Numbers of the plan" data-slow={slow}>
      <Stat
        label="step time, estimate"
        testid="step-time"
        value={formatSeconds(summary.step_time_s)}
        before={previous?.step_time_s}
        after={summary.step_time_s}
        title={`between ${formatSeconds(low)} and ${formatSeconds(high)}`}
      />
      <Stat
        label="MFU"
        testid="mfu"
        value={formatPercent(summary.mfu)}
        before={previous?.mfu}
        after={summary.mfu}
        more
      />
      <Stat
        label={summary.tokens_per_second === null ? "samples/s" : "tokens/s"}
        testid="tokens"
        value={formatCount(throughput(summary))}
        before={previous ? throughput(previous) : undefined}
        after={throughput(summary)}
        more
      />
      <div className={classes["time"]}>
        <StackedBar
          label="Step time"
          parts={[
            part("compute", summary.compute_s, TIME_COLOURS.compute),
            part("communication", summary.communication_s, TIME_COLOURS.communication),
            part("bubble", summary.bubble_s, TIME_COLOURS.bubble),
            part("optimizer", summary.optimizer_s, TIME_COLOURS.optimizer),
          ]}
        />
      </div>
      <Stat
        label={`${over ? "over its" : "of"} ${formatMemory(summary.capacity_bytes)}`}
        testid="memory"
        value={formatMemory(summary.memory_bytes)}
        before={previous?.memory_bytes}
        after={summary.memory_bytes}
        bad={over}
        title="memory of the fullest device"
      />
      <div className={classes["memory"]}>
        <StackedBar
          label={`Memory of ${formatMemory(summary.capacity_bytes)}`}
          limit={summary.capacity_bytes}
          parts={summary.memory_parts.map(({ name, bytes }, position) => ({
            name,
            value: bytes,
            text: formatMemory(bytes),
            colour: MEMORY_COLOURS[position % MEMORY_COLOURS.length] ?? "#808a98",
          }))}
        />
      </div>
      <dl className={classes["clock"]}>
        <div>
          <dt>evaluated</dt>
          <dd>{summary.evaluated_ms.toFixed(0)} ms</dd>
        </div>
        <div>
          <dt>round trip</dt>
          <dd>{roundTrip === null ? "–" : `${roundTrip.toFixed(0)} ms`}</dd>
        </div>
      </dl>
      <p className="visually-hidden" role="status" aria-live="polite" data-testid="announcement">
        {previous && announcement(previous, summary)}
      </p>
    </section>
  );
}

function part(name: string, value: number, colour: string) {
  return { name, value, text: formatSeconds(value), colour };
}

function Stat({
  label,
  value,
  before,
  after,
  more,
  bad,
  title,
  testid,
}: {
  label: string;
  value: string;
  before: number | undefined;
  after: number;
  /** More is better; by default less is. */
  more?: boolean;
  bad?: boolean;
  title?: string;
  testid: string;
}) {
  const change = before === undefined ? "" : formatChange(before, after);
  const better = before !== undefined && after > before === (more === true);
  return (
    <div className={classes["number"]} data-bad={bad === true} title={title}>
      <p>
        <strong data-testid={testid}>{value}</strong>
        {change && (
          <span className={classes["change"]} data-better={better} data-testid={`${testid}-change`}>
            {change}
          </span>
        )}
      </p>
      <p className={classes["label"]}>{label}</p>
    </div>
  );
}

function announcement(before: Summary, after: Summary): string {
  const over = after.memory_bytes > after.capacity_bytes ? ", over capacity" : "";
  return (
    `Step time ${formatSeconds(after.step_time_s)} ` +
    `${formatChange(before.step_time_s, after.step_time_s) || "unchanged"}, ` +
    `memory ${formatMemory(after.memory_bytes)} ` +
    `${formatChange(before.memory_bytes, after.memory_bytes) || "unchanged"}${over}.`
  );
}
