import { NumberInput } from "@mantine/core";
import { batchFault } from "../../document/mesh";
import classes from "./BatchFields.module.css";

export interface Batch {
  globalBatch: number;
  seq: number;
  microbatches: number;
}

const whole = (value: number | string) => (typeof value === "number" ? Math.trunc(value) : 0);

/** Fields of a step's size; `sequences` tells whether the model's samples are sequences. */
export function BatchFields({
  batch,
  sequences,
  onChange,
}: {
  batch: Batch;
  sequences: boolean;
  onChange(batch: Batch): void;
}) {
  const fault = batchFault(batch.globalBatch, batch.microbatches);
  const field = (key: keyof Batch, label: string, description: string) => (
    <NumberInput
      label={label}
      description={description}
      min={1}
      allowDecimal={false}
      thousandSeparator=","
      value={batch[key]}
      error={key === "microbatches" && fault ? fault : undefined}
      onChange={(value) => onChange({ ...batch, [key]: whole(value) })}
    />
  );
  return (
    <div className={classes["root"]}>
      {field("globalBatch", "Global batch", `${sequences ? "sequences" : "samples"} per step`)}
      {sequences && field("seq", "Sequence", "tokens each")}
      {field("microbatches", "Microbatches", "parts of a step")}
    </div>
  );
}
