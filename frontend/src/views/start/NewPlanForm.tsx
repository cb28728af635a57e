import { Button, Select, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import type { MeshAxis, Model, NewPlan, Problem, Registry } from "../../api/types";
import { presetAxes, presetLabel, presetPlaces, presetTitle } from "../../commands/edits";
import { batchFault, clusterName, meshFault, parseCluster } from "../../document/mesh";
import { formatCount } from "../../document/units";
import { chipColour } from "../../ui/AxisChip";
import chips from "../../ui/chips.module.css";
import { axisColours, textOn } from "../../ui/colour";
import { Loading, ProblemNote } from "../../ui/states";
import { BatchFields } from "../mesh/BatchFields";
import { MeshFields } from "../mesh/MeshFields";
import classes from "./StartPage.module.css";

const USUAL_SEQ = 4096;

/** The models as options, under the name of their group; imported ones have none. */
function grouped(models: Model[]) {
  const groups = new Map<string, { value: string; label: string }[]>();
  for (const entry of models) {
    const group = entry.group || "imported";
    const layers = entry.layers ? `, ${entry.layers} layers` : "";
    const label = `${entry.name} · ${formatCount(entry.parameters)} parameters${layers}`;
    groups.set(group, [...(groups.get(group) ?? []), { value: entry.id, label }]);
  }
  return [...groups].map(([group, items]) => ({ group, items }));
}

export function NewPlanForm({
  models,
  registry,
  preferred,
  busy,
  problem,
  onCreate,
}: {
  models: Model[] | undefined;
  registry: Registry | undefined;
  /** Id of a model that was just imported. */
  preferred: string | null;
  busy: boolean;
  problem: Problem | null;
  onCreate(plan: NewPlan): void;
}) {
  const [model, setModel] = useState("llama-3-8b");
  const [name, setName] = useState("");
  const [cluster, setCluster] = useState(parseCluster("1x8-h100-sxm"));
  const [axes, setAxes] = useState<MeshAxis[]>([
    { name: "dp", size: 2 },
    { name: "tp", size: 4 },
  ]);
  const [batch, setBatch] = useState({ globalBatch: 32, seq: USUAL_SEQ, microbatches: 4 });
  const [precision, setPrecision] = useState("bf16");
  const [uses, setUses] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    if (preferred) setModel(preferred);
  }, [preferred]);
  const chosen = models?.find((entry) => entry.id === model);
  const longest = chosen?.longest_seq || Infinity;
  const sequences = chosen?.symbols.includes("S") ?? true;
  const batches = chosen?.symbols.includes("B") ?? true;
  useEffect(() => {
    setBatch((now) => ({
      ...(batches ? now : { globalBatch: 1, microbatches: 1 }),
      seq: sequences ? Math.min(now.seq || USUAL_SEQ, longest) : 0,
    }));
  }, [longest, sequences, batches]);

  if (!models || !registry) return <Loading label="Loading the form" rows={8} />;
  const colours = axisColours(axes.map((axis) => axis.name));
  const fits =
    meshFault(axes, cluster) === null && batchFault(batch.globalBatch, batch.microbatches) === null;
  const toggle = (key: string) => {
    const next = new Set(uses);
    if (!next.delete(key)) next.add(key);
    setUses(next);
  };

  /** Takes a model, with the plan to start from that it has. */
  function choose(id: string) {
    setModel(id);
    const start = models?.find((entry) => entry.id === id)?.start;
    if (!start) return;
    setCluster(parseCluster(start.cluster));
    setAxes(start.mesh);
    setBatch({
      globalBatch: start.global_batch,
      seq: start.seq ?? 0,
      microbatches: start.microbatches ?? 1,
    });
    setUses(
      new Set(
        (start.presets ?? []).flatMap((preset) =>
          Object.values(preset.axes).map(([axis]) => `${preset.name}/${axis}`),
        ),
      ),
    );
  }

  function submit() {
    if (!registry) return;
    const names = axes.map((axis) => axis.name);
    const presets = registry.presets.flatMap((preset) =>
      presetPlaces(preset, names)
        .filter((axis) => uses.has(`${preset.name}/${axis ?? ""}`))
        .map((axis) => ({ name: preset.name, axes: presetAxes(preset, axis) })),
    );
    onCreate({
      model,
      name: name.trim() || null,
      cluster: clusterName(cluster),
      mesh: axes,
      global_batch: batch.globalBatch,
      seq: batch.seq,
      microbatches: batch.microbatches,
      precision,
      presets,
    });
  }

  return (
    <form
      className={classes["form"]}
      aria-label="New plan"
      onSubmit={(event) => {
        event.preventDefault();
        if (fits) submit();
      }}
    >
      <div className={classes["row"]}>
        <Select
          label="Model"
          searchable
          data={grouped(models)}
          value={model}
          inputWrapperOrder={["label", "input", "description", "error"]}
          description={chosen?.fixed.join(" ") || undefined}
          onChange={(value) => value && choose(value)}
        />
        <TextInput
          label="Name"
          placeholder={chosen?.name}
          value={name}
          maxLength={200}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </div>
      <MeshFields
        cluster={cluster}
        axes={axes}
        devices={registry.devices}
        onCluster={setCluster}
        onAxes={setAxes}
      />
      <div className={classes["row"]}>
        <BatchFields batch={batch} sequences={sequences} onChange={setBatch} />
        <Select
          label="Precision"
          description="of parameters and computation"
          data={registry.precisions}
          value={precision}
          onChange={(value) => value && setPrecision(value)}
        />
      </div>
      <fieldset className={classes["presets"]}>
        <legend>Start from</legend>
        {registry.presets.map((preset) => (
          <div key={preset.name} className={classes["preset"]}>
            <div>
              <p>{presetTitle(preset.name)}</p>
              <p className={classes["summary"]}>{preset.summary}</p>
            </div>
            <div className={classes["presetAxes"]}>
              {presetPlaces(
                preset,
                axes.map((axis) => axis.name),
              ).map((axis) => {
                const key = `${preset.name}/${axis ?? ""}`;
                const on = uses.has(key);
                const colour = colours[axis ?? ""] ?? "#888888";
                return (
                  <button
                    key={axis}
                    type="button"
                    className={chips["toggle"]}
                    style={on ? { background: colour, color: textOn(colour) } : chipColour(colour)}
                    aria-pressed={on}
                    aria-label={
                      axis === null
                        ? `apply ${presetTitle(preset.name)}`
                        : presetLabel(preset, axis)
                    }
                    onClick={() => toggle(key)}
                  >
                    {!on && <i className={chips["dot"]} />}
                    {axis ?? "apply"}
                  </button>
                );
              })}
            </div>
          </div>
        ))}
      </fieldset>
      {problem && <ProblemNote problem={problem} />}
      <div className={classes["actions"]}>
        <Button type="submit" size="sm" disabled={!fits} loading={busy}>
          Create
        </Button>
      </div>
    </form>
  );
}
