import { Button, Modal, NumberInput, Select } from "@mantine/core";
import { useState } from "react";
import { changeBatch, changeMesh, splitAxis } from "../../commands/edits";
import { batchFault, clusterName, meshFault, parseCluster, product } from "../../document/mesh";
import { useDocument, usePlan, useRegistry } from "../../ui/PlanContext";
import { ProblemNote } from "../../ui/states";
import { useReturnFocus } from "../../ui/useReturnFocus";
import { BatchFields } from "../mesh/BatchFields";
import { MeshFields } from "../mesh/MeshFields";
import classes from "./SettingsModal.module.css";

export default function SettingsModal({ onClose }: { onClose(): void }) {
  const version = usePlan((state) => state.plan.version);
  useReturnFocus();
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title="Mesh and batch"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {/* A new version starts the fields afresh: they always show what the plan has. */}
      <div key={version} className={classes["root"]}>
        <MeshSection />
        <SplitSection />
        <BatchSection />
      </div>
    </Modal>
  );
}

function Refusal({ field }: { field: string }) {
  const refusal = usePlan((state) => state.refusal);
  return refusal?.field === field ? <ProblemNote problem={refusal.problem} /> : null;
}

function MeshSection() {
  const document = useDocument();
  const { devices } = useRegistry();
  const plan = usePlan((state) => state.plan);
  const [cluster, setCluster] = useState(parseCluster(plan.cluster));
  const [axes, setAxes] = useState(plan.view.mesh.map(([name, size]) => ({ name, size })));
  const same =
    clusterName(cluster) === plan.cluster &&
    product(axes) === product(plan.view.mesh.map(([name, size]) => ({ name, size }))) &&
    axes.every(({ name }, position) => name === plan.view.mesh[position]?.[0]);
  return (
    <section aria-label="Cluster and mesh">
      <MeshFields
        cluster={cluster}
        axes={axes}
        devices={devices}
        onCluster={setCluster}
        onAxes={setAxes}
      />
      <p className={classes["note"]}>
        Decisions over an axis that is gone are dropped; undo brings them back.
      </p>
      <Refusal field="mesh" />
      <Button
        disabled={meshFault(axes, cluster) !== null || same}
        onClick={() => document.edit(changeMesh(clusterName(cluster), axes))}
      >
        Change the mesh
      </Button>
    </section>
  );
}

function SplitSection() {
  const document = useDocument();
  const mesh = usePlan((state) => state.plan.view.mesh);
  const [axis, setAxis] = useState(mesh.find(([, size]) => size > 3)?.[0] ?? mesh[0]?.[0] ?? "");
  const [first, setFirst] = useState(2);
  const size = mesh.find(([name]) => name === axis)?.[1] ?? 1;
  const rest = size / first;
  const fits = Number.isInteger(rest) && first > 1 && rest > 1;
  return (
    <section aria-label="Cut an axis">
      <h3>Cut an axis in two</h3>
      <div className={classes["row"]}>
        <Select
          label="Axis"
          data={mesh.map(([name, length]) => ({ value: name, label: `${name} ${length}` }))}
          value={axis}
          onChange={(value) => value && setAxis(value)}
        />
        <NumberInput
          label="Outer part"
          min={2}
          allowDecimal={false}
          value={first}
          error={fits ? undefined : `does not cut ${size} in two`}
          onChange={(value) => typeof value === "number" && setFirst(value)}
        />
        <Button disabled={!fits} onClick={() => document.edit(splitAxis(axis, [first, rest]))}>
          {fits ? `Cut into ${first} × ${rest}` : "Cut"}
        </Button>
      </div>
    </section>
  );
}

function BatchSection() {
  const document = useDocument();
  const plan = usePlan((state) => state.plan);
  const [batch, setBatch] = useState({
    globalBatch: plan.global_batch,
    seq: plan.seq,
    microbatches: plan.microbatches,
  });
  const same =
    batch.globalBatch === plan.global_batch &&
    batch.seq === plan.seq &&
    batch.microbatches === plan.microbatches;
  return (
    <section aria-label="Batch">
      <h3>Batch</h3>
      <BatchFields batch={batch} sequences={plan.seq > 0} onChange={setBatch} />
      <Refusal field="batch" />
      <Button
        disabled={
          batchFault(batch.globalBatch, batch.microbatches) !== null ||
          (plan.seq > 0 && batch.seq < 1) ||
          same
        }
        onClick={() => document.edit(changeBatch(batch.globalBatch, batch.seq, batch.microbatches))}
      >
        Change the batch
      </Button>
    </section>
  );
}
