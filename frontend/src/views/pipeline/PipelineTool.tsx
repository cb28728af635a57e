import { Button, NumberInput, SegmentedControl, Select } from "@mantine/core";
import { useState } from "react";
import { api } from "../../api/client";
import type { ScheduleNumbers } from "../../api/types";
import { requestOf, type Wanted } from "../../document/schedules";
import { formatPercent } from "../../document/units";
import { Icon } from "../../ui/icons";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import { Plot } from "../panels/Plot";
import classes from "./Pipeline.module.css";
import { saveText } from "./save";
import type { Schedules } from "./useSchedules";

/** Which schedules, how many ranks and microbatches, what a pass takes; and what comes of it. */
export function PipelineTool({ schedules, dark }: { schedules: Schedules; dark: boolean }) {
  const { wanted, answer, problem, busy } = schedules;
  const [view, setView] = useState("passes");
  const shown = answer?.schedules ?? [];
  return (
    <div className={classes["tool"]}>
      <PipelineForm schedules={schedules} />
      {problem && <ProblemNote problem={problem} />}
      {answer ? (
        <div className={classes["answer"]} aria-busy={busy} data-still={problem !== null}>
          <Numbers schedules={shown} />
          <div className={classes["bar"]}>
            <SegmentedControl
              aria-label="What is drawn"
              value={view}
              onChange={setView}
              data={[
                { value: "passes", label: "Who does what when" },
                ...shown.map((each, index) => ({
                  value: `held${index}`,
                  label: `Kept by ${each.name}`,
                })),
              ]}
            />
            <TakeAway wanted={wanted} />
          </div>
          {view === "passes" || !answer.held[Number(view.slice(4))] ? (
            <div className={classes["passes"]} data-two={shown.length > 1}>
              <Plot
                figure={answer.passes}
                dark={dark}
                label={`Passes of every rank over time, ${shown.map((each) => each.name).join(" above ")}`}
                onClick={() => {}}
              />
            </div>
          ) : (
            <div className={classes["passes"]}>
              <Plot
                key={view}
                figure={answer.held[Number(view.slice(4))] ?? answer.passes}
                dark={dark}
                label="Microbatches kept by every rank over time"
                onClick={() => {}}
              />
            </div>
          )}
        </div>
      ) : (
        !problem && <Loading label="Running the pipeline" rows={6} />
      )}
    </div>
  );
}

function PipelineForm({ schedules: { wanted, set } }: { schedules: Schedules }) {
  const entries = useResource("schedules", api.schedules);
  const names = (entries.data ?? []).map((entry) => entry.name);
  const summary = (name: string) => entries.data?.find((entry) => entry.name === name)?.summary;
  const number = (
    key: Exclude<keyof Wanted, "name" | "against" | "objective">,
    label: string,
    min: number,
    step: number,
  ) => (
    <NumberInput
      label={label}
      value={wanted[key]}
      min={min}
      step={step}
      allowNegative={false}
      decimalScale={step < 1 ? 4 : 0}
      data-testid={`field:${key}`}
      onChange={(value) => typeof value === "number" && set({ [key]: value })}
    />
  );
  return (
    <form
      className={classes["form"]}
      aria-label="Pipeline"
      onSubmit={(event) => event.preventDefault()}
    >
      <div className={classes["setting"]}>
        <Select
          label="Schedule"
          data={names}
          value={wanted.name}
          allowDeselect={false}
          data-testid="field:name"
          onChange={(name) => name && set({ name, per_rank: 0 })}
        />
        <Select
          label="Compare with"
          data={names.filter((name) => name !== wanted.name)}
          value={wanted.against || null}
          placeholder="none"
          clearable
          data-testid="field:against"
          onChange={(against) => set({ against: against ?? "" })}
        />
        {number("ranks", "Ranks", 1, 1)}
        {number("microbatches", "Microbatches", 1, 1)}
        {number("per_rank", "Parts a rank", 0, 1)}
      </div>
      <div className={classes["setting"]}>
        {number("forward", "Forward", 0.0001, 0.1)}
        {number("backward_input", "Input gradient", 0, 0.1)}
        {number("backward_weight", "Weight gradient", 0, 0.1)}
        {number("send", "Message", 0, 0.05)}
        {number("keep", "Room for microbatches", 0, 1)}
      </div>
      <p className={classes["hint"]}>
        {wanted.name}: {summary(wanted.name)}. Times are drawn as seconds, and any other unit does
        as well: what a rank does for a microbatch. Parts a rank and room are 0 for what the
        schedule needs; only <span className="mono">automatic</span> heeds the room.
      </p>
    </form>
  );
}

function Numbers({ schedules }: { schedules: ScheduleNumbers[] }) {
  return (
    <ScrollRegion label="Numbers of the schedules" className={classes["scroll"]}>
      <table className={classes["table"]}>
        <thead>
          <tr>
            <th scope="col">Schedule</th>
            <th scope="col">Step</th>
            <th scope="col">At least</th>
            <th scope="col">Bubble of all rank time</th>
            <th scope="col">of useful time</th>
            <th scope="col">within a rank's span</th>
            <th scope="col">Idle by order</th>
            <th scope="col">by messages</th>
            <th scope="col">Most kept</th>
          </tr>
        </thead>
        <tbody>
          {schedules.map((each) => (
            <tr key={each.name} data-testid={`numbers:${each.name}`}>
              <th scope="row" title={each.note}>
                {each.name}
              </th>
              <td>{rounded(each.makespan)}</td>
              <td>{rounded(each.bound)}</td>
              <td>{formatPercent(each.bubble["of_total"] ?? 0)}</td>
              <td>{formatPercent(each.bubble["of_useful"] ?? 0)}</td>
              <td>{formatPercent(each.bubble["of_span"] ?? 0)}</td>
              <td>{rounded(each.causes["ideal"] ?? 0)}</td>
              <td>{rounded(each.causes["communication"] ?? 0)}</td>
              <td>{rounded(Math.max(...each.kept))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {schedules.map(
        (each) =>
          each.note && (
            <p key={each.name} className={classes["hint"]}>
              {each.note}
            </p>
          ),
      )}
    </ScrollRegion>
  );
}

/** The order as a file that torch's pipeline runtime loads, and the times as one that Perfetto opens. */
function TakeAway({ wanted }: { wanted: Wanted }) {
  const [failed, setFailed] = useState(false);
  async function save(kind: "csv" | "trace") {
    try {
      const text = await api.scheduleFile(kind, requestOf(wanted));
      saveText(text, `${wanted.name}.${kind === "csv" ? "csv" : "trace.json"}`);
      setFailed(false);
    } catch {
      setFailed(true);
    }
  }
  return (
    <div className={classes["take"]}>
      {failed && <span role="alert">The file can't be made.</span>}
      <Button
        variant="default"
        leftSection={<Icon name="download" />}
        title="The order of every rank, as torch.distributed.pipelining reads it"
        onClick={() => save("csv")}
      >
        CSV for PyTorch
      </Button>
      <Button
        variant="default"
        leftSection={<Icon name="download" />}
        title="A trace to open at ui.perfetto.dev"
        onClick={() => save("trace")}
      >
        Perfetto trace
      </Button>
    </div>
  );
}

const rounded = (value: number) => value.toLocaleString("en-US", { maximumSignificantDigits: 5 });
