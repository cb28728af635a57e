import { Button, NumberInput, SegmentedControl, Select } from "@mantine/core";
import { useState } from "react";
import { api } from "../../api/client";
import type { Change, PipelineAnswer } from "../../api/types";
import { formatMemory, formatPercent, formatSeconds } from "../../document/units";
import { useDocument, usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Empty, Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import { Plot } from "./Plot";
import { StageStrip } from "./StageStrip";
import classes from "./stages.module.css";
import { TakePipeline } from "./TakePipeline";

/** The pipeline: who runs what when, what each rank holds, and where the model is cut. */
export default function Stages({ dark }: { dark: boolean }) {
  const pipeline = usePlan((state) => state.plan.pipeline);
  return pipeline ? <Cut dark={dark} /> : <OnePiece />;
}

const useEdit = () => {
  const document = useDocument();
  return (change: Change, label: string) =>
    document.edit({ changes: [change], label, field: "pipeline", layer: null });
};

function OnePiece() {
  const mesh = usePlan((state) => state.plan.view.mesh);
  const decisions = usePlan((state) => state.plan.decisions);
  const refusal = usePlan((state) => state.refusal);
  const edit = useEdit();
  const used = new Set(
    decisions.flatMap((one) => (one.type === "keep" ? [one.axis] : "axes" in one ? one.axes : [])),
  );
  const free = mesh.filter(([name, size]) => size > 1 && !used.has(name)).map(([name]) => name);
  const [axis, setAxis] = useState<string | null>(null);
  const chosen = axis ?? free.find((name) => name.startsWith("p")) ?? free[0] ?? null;
  return (
    <Empty title="The model is in one piece">
      {free.length > 0 ? (
        <div className={classes["start"]}>
          <Select
            label="Lay stages along"
            data={free}
            value={chosen}
            allowDeselect={false}
            data-testid="pipeline:axis"
            onChange={setAxis}
          />
          <Button
            disabled={!chosen}
            data-testid="pipeline:cut"
            onClick={() =>
              edit(
                { type: "pipeline", axis: chosen, schedule: "1f1b", per_rank: 0, stages: [] },
                `cut into stages along ${chosen}`,
              )
            }
          >
            Cut into balanced stages
          </Button>
        </div>
      ) : (
        <p>
          Every mesh axis shards something. Add an axis for the stages in the settings, such as pp
          of 4.
        </p>
      )}
      {refusal?.field === "pipeline" && <ProblemNote problem={refusal.problem} />}
    </Empty>
  );
}

function Cut({ dark }: { dark: boolean }) {
  const document = useDocument();
  const plan = usePlan((state) => state.plan);
  const refusal = usePlan((state) => state.refusal);
  const edit = useEdit();
  const [against, setAgainst] = useState("");
  const [shown, setShown] = useState("passes");
  const { id, version } = plan;
  const answer = useResource(`${id}@${version}:${against}`, () => api.pipeline(id, against));
  const { data, problem } = answer;
  const select = (stage: number) => {
    const nodes = data?.stages[stage]?.nodes ?? [];
    if (nodes.length > 1) document.mark(nodes);
    else if (nodes[0]) document.select(nodes[0]);
  };
  return (
    <ScrollRegion label="Pipeline" className={classes["root"]}>
      <Settings against={against} onAgainst={setAgainst} balanced={data?.view.balanced ?? true} />
      {refusal?.field === "pipeline" && <ProblemNote problem={refusal.problem} />}
      {problem && <ProblemNote problem={problem} onRetry={answer.reload} />}
      {!data && !problem && <Loading label="Running the pipeline" rows={6} />}
      {data && (
        <div aria-busy={answer.loading} className={classes["answer"]}>
          {data.view.cuts ? (
            <StageStrip
              view={data.view}
              onStage={select}
              onMove={(stage, unit) =>
                edit(
                  { type: "boundary", stage, unit },
                  `begin stage ${stage} with ${data.view.units[unit]?.name ?? unit}`,
                )
              }
            />
          ) : (
            <p className={classes["hint"]}>
              These stages are no stretches of the model, so no cut can be dragged.
            </p>
          )}
          <Numbers answer={data} />
          <div className={classes["bar"]}>
            <SegmentedControl
              aria-label="What is drawn"
              value={shown}
              onChange={setShown}
              data={[
                { value: "passes", label: "Who does what when" },
                ...data.numbers.map((each, index) => ({
                  value: `held${index}`,
                  label: `Memory with ${each.schedule}`,
                })),
              ]}
            />
            <TakePipeline id={id} figure={figureOf(data, shown)} dark={dark} name={plan.name} />
          </div>
          <div className={classes["figure"]} data-two={data.numbers.length > 1}>
            <Plot
              key={shown}
              figure={figureOf(data, shown)}
              dark={dark}
              label={
                shown === "passes"
                  ? `Passes of every rank over time, ${data.numbers.map((each) => each.schedule).join(" above ")}; the table has the times`
                  : "Bytes that every rank holds over time"
              }
              onClick={({ customdata }) => {
                const stage = Array.isArray(customdata) ? customdata[3] : undefined;
                if (typeof stage === "number" && stage >= 0) select(stage % data.stages.length);
              }}
            />
          </div>
          <StageTable answer={data} onStage={select} />
        </div>
      )}
    </ScrollRegion>
  );
}

const figureOf = (answer: PipelineAnswer, shown: string) =>
  shown === "passes" ? answer.passes : (answer.held[Number(shown.slice(4))] ?? answer.passes);

function Settings({
  against,
  onAgainst,
  balanced,
}: {
  against: string;
  onAgainst(name: string): void;
  balanced: boolean;
}) {
  const plan = usePlan((state) => state.plan);
  const edit = useEdit();
  const entries = useResource("schedules", api.schedules);
  const pipeline = plan.pipeline;
  if (!pipeline) return null;
  const names = (entries.data ?? []).map((entry) => entry.name);
  const cut = (change: Partial<typeof pipeline>, label: string) => {
    const next = { ...pipeline, stages: [], ...change };
    const stages = next.stages.map(([target, stage]) => ({ target, stage }));
    edit({ type: "pipeline", ...next, stages }, label);
  };
  const needs = (name: string) => entries.data?.find((entry) => entry.name === name)?.per_rank ?? 0;
  return (
    <form
      className={classes["settings"]}
      aria-label="Pipeline"
      onSubmit={(event) => event.preventDefault()}
    >
      <Select
        label={`Schedule along ${pipeline.axis}`}
        data={names}
        value={pipeline.schedule}
        allowDeselect={false}
        data-testid="pipeline:schedule"
        onChange={(schedule) => {
          if (!schedule) return;
          // The stages stay where both schedules hold as many.
          const same =
            (needs(schedule) || 1) === (needs(pipeline.schedule) || pipeline.per_rank || 1);
          const kept = same ? { stages: pipeline.stages } : {};
          cut({ schedule, per_rank: 0, ...kept }, `schedule ${schedule}`);
        }}
      />
      <NumberInput
        label="Stages a rank"
        description="0: as it needs"
        min={0}
        max={64}
        allowDecimal={false}
        value={pipeline.per_rank}
        data-testid="pipeline:per_rank"
        onChange={(value) =>
          typeof value === "number" &&
          value !== pipeline.per_rank &&
          cut({ per_rank: value }, `${value} stages on each rank`)
        }
      />
      <NumberInput
        label="Microbatches"
        min={1}
        allowDecimal={false}
        value={plan.microbatches}
        data-testid="pipeline:microbatches"
        onChange={(value) =>
          typeof value === "number" &&
          value > 0 &&
          value !== plan.microbatches &&
          edit(
            {
              type: "batch",
              global_batch: plan.global_batch,
              seq: plan.seq,
              microbatches: value,
            },
            `${value} microbatches`,
          )
        }
      />
      <Select
        label="Compare with"
        data={names.filter((name) => name !== pipeline.schedule)}
        value={against || null}
        placeholder="none"
        clearable
        data-testid="pipeline:against"
        onChange={(name) => onAgainst(name ?? "")}
      />
      <Button
        variant="default"
        disabled={balanced}
        title="Cut so that the busiest rank has the least to do"
        onClick={() => cut({}, "balance the stages")}
      >
        Balance
      </Button>
      <Button
        variant="default"
        onClick={() =>
          edit(
            { type: "pipeline", axis: null, schedule: "1f1b", per_rank: 0, stages: [] },
            "put the model in one piece",
          )
        }
      >
        One piece
      </Button>
    </form>
  );
}

const NUMBERS = [
  ["of_total", "bubble of all rank time"],
  ["of_useful", "of useful time"],
  ["of_span", "within a rank's span"],
] as const;
const CAUSES = ["bubble of the schedule", "imbalance", "recompute", "messages"];

function Numbers({ answer }: { answer: PipelineAnswer }) {
  return (
    <>
      <table className={classes["table"]}>
        <thead>
          <tr>
            <th scope="col">Schedule</th>
            <th scope="col">Step</th>
            <th scope="col">At least</th>
            {NUMBERS.map(([key, label]) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
            {CAUSES.map((cause) => (
              <th key={cause} scope="col">
                {cause}
              </th>
            ))}
            <th scope="col">fullest rank</th>
          </tr>
        </thead>
        <tbody>
          {answer.numbers.map((each) => (
            <tr key={each.schedule} data-testid={`pipeline:${each.schedule}`}>
              <th scope="row">{each.schedule}</th>
              <td>{formatSeconds(each.step_time_s)}</td>
              <td>{formatSeconds(each.bound_s)}</td>
              {NUMBERS.map(([key]) => (
                <td key={key}>{formatPercent(each.bubble[key] ?? 0)}</td>
              ))}
              {CAUSES.map((cause) => (
                <td key={cause}>{formatSeconds(Math.max(0, each.causes[cause] ?? 0))}</td>
              ))}
              <td data-over={Math.max(...each.rank_memory_bytes) > each.capacity_bytes}>
                {formatMemory(Math.max(...each.rank_memory_bytes))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {answer.numbers.map(
        (each) =>
          each.note && (
            <p key={each.schedule} className={classes["hint"]}>
              {each.note}
            </p>
          ),
      )}
    </>
  );
}

function StageTable({ answer, onStage }: { answer: PipelineAnswer; onStage(stage: number): void }) {
  return (
    <table className={classes["table"]}>
      <caption className={classes["caption"]}>Stages, for one microbatch</caption>
      <thead>
        <tr>
          {["Stage", "Ranks", "Forward", "Backward", "Message", "States", "Keeps", "Runs"].map(
            (title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {answer.stages.map((stage) => (
          <tr key={stage.index} data-testid={`stage:${stage.index}`}>
            <th scope="row">
              <button type="button" className="link" onClick={() => onStage(stage.index)}>
                {stage.index}
              </button>
            </th>
            <td>{stage.ranks.join(", ")}</td>
            <td>{formatSeconds(stage.forward_s)}</td>
            <td>{formatSeconds(stage.backward_s)}</td>
            <td>{formatSeconds(stage.send_s)}</td>
            <td>{formatMemory(stage.resident_bytes)}</td>
            <td>{formatMemory(stage.activation_bytes)}</td>
            <td className={classes["runs"]}>{stage.runs.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
