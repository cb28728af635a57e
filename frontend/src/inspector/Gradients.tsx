import { NumberInput, SegmentedControl, Select, Switch, TextInput } from "@mantine/core";
import { type KeyboardEvent, useState } from "react";
import type { Gradients as Decided } from "../api/types";
import { changeGradients, fuse } from "../commands/training";
import { bucketTotals, gradientsNow, readPositions } from "../document/training";
import { formatBytes, formatInteger } from "../document/units";
import { useLook } from "../ui/LookContext";
import { useDocument, usePlan } from "../ui/PlanContext";
import classes from "./inspector.module.css";
import { Refusal } from "./Refusal";
import { Setting } from "./Setting";

const FUSIONS = [
  { value: "none", label: "None" },
  { value: "auto", label: "Auto" },
  { value: "size", label: "Size" },
  { value: "index", label: "Index" },
];
const COMPRESSIONS = [
  { value: "none", label: "none" },
  { value: "bf16", label: "bf16" },
  { value: "fp16", label: "fp16" },
  { value: "int8", label: "int8" },
  { value: "one_bit", label: "1 bit" },
];
const MIB = 1 << 20;

/** How the gradients of parameters are reduced over the ranks. */
export function Gradients() {
  const document = useDocument();
  const look = useLook();
  const plan = usePlan((state) => state.plan);
  const unsent = usePlan((state) => state.unsent);
  const now = gradientsNow(plan, unsent);
  const set = (part: Partial<Decided>) => document.edit(changeGradients(now, part));
  const { count, largest } = bucketTotals(plan.view);
  return (
    <section className={classes["section"]} aria-labelledby="gradients">
      <h3 id="gradients" className="section-title" tabIndex={-1}>
        Gradients
      </h3>
      <Setting label="Fusion">
        <SegmentedControl
          aria-label="Fusion of gradients"
          data-testid="fusion"
          data={FUSIONS}
          value={now.fusion}
          onChange={(value) => document.edit(fuse(now, value as Decided["fusion"]))}
        />
      </Setting>
      {now.fusion === "size" && (
        <BucketSize
          key={plan.gradients.bucket_bytes}
          bytes={now.bucket_bytes}
          onBytes={(bytes) => set({ bucket_bytes: bytes })}
        />
      )}
      {now.fusion === "index" && (
        <Positions
          key={plan.gradients.indices.join()}
          positions={now.indices}
          onPositions={(indices) => set({ indices })}
        />
      )}
      {count > 0 && (
        <p className={classes["quiet"]} data-testid="buckets">
          {formatInteger(count)} {count === 1 ? "bucket" : "buckets"}, up to {formatBytes(largest)}{" "}
          <button type="button" className="link" onClick={() => look.buckets([])}>
            Show
          </button>
        </p>
      )}
      {count === 0 && now === plan.gradients && now.fusion !== "none" && (
        <p className={classes["quiet"]} data-testid="buckets">
          No gradient is reduced over ranks, so there is no bucket.
        </p>
      )}
      <Switch
        size="xs"
        className={classes["switch"]}
        label="Reduce beside backward"
        description="Backward does not wait for the collectives"
        checked={now.overlap}
        data-testid="overlap"
        onChange={(event) => set({ overlap: event.currentTarget.checked })}
      />
      <Setting label="Passed as">
        <Select
          aria-label="Compression of gradients"
          data={COMPRESSIONS}
          value={now.compression}
          onChange={(value) => value && set({ compression: value as Decided["compression"] })}
        />
      </Setting>
      <Setting label="Reduction">
        <SegmentedControl
          aria-label="Reduction of gradients"
          data={[
            { value: "mean", label: "Mean" },
            { value: "sum", label: "Sum" },
          ]}
          value={now.reduction}
          onChange={(value) => set({ reduction: value as Decided["reduction"] })}
        />
      </Setting>
      <Refusal field="gradients" />
    </section>
  );
}

/**
 * Takes what stands in a field when it is left, or with Enter; not twice, so that what was refused stays to be mended.
 */
function useTaken(take: () => void, text: string) {
  const [taken, setTaken] = useState(text);
  const once = () => {
    if (text === taken) return;
    setTaken(text);
    take();
  };
  return {
    onBlur: once,
    onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && once(),
  };
}

/** Bytes of a bucket. */
function BucketSize({ bytes, onBytes }: { bytes: number; onBytes(bytes: number): void }) {
  const [size, setSize] = useState<number | string>(Number((bytes / MIB).toPrecision(6)));
  const wanted = typeof size === "number" ? Math.round(size * MIB) : 0;
  const taken = useTaken(() => wanted >= 1 && onBytes(wanted), `${size}`);
  return (
    <Setting label="Most in one">
      <NumberInput
        aria-label="Most in a bucket, in MiB"
        suffix=" MiB"
        min={0}
        thousandSeparator=","
        value={size}
        error={wanted < 1 ? "at least one byte" : undefined}
        onChange={setSize}
        {...taken}
      />
    </Setting>
  );
}

/** Where new buckets begin. */
function Positions({
  positions,
  onPositions,
}: {
  positions: readonly number[];
  onPositions(positions: number[]): void;
}) {
  const [text, setText] = useState(positions.join(", "));
  const read = readPositions(text);
  const taken = useTaken(() => "positions" in read && onPositions(read.positions), text);
  return (
    <TextInput
      label="Buckets begin at"
      description="positions of parameters in the order of forward, layers counted one by one"
      value={text}
      error={"fault" in read ? read.fault : undefined}
      onChange={(event) => setText(event.currentTarget.value)}
      {...taken}
    />
  );
}
