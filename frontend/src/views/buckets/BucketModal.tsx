import { Modal } from "@mantine/core";
import { useEffect, useRef } from "react";
import type { BucketView, PlanView } from "../../api/types";
import { bucketName } from "../../document/buckets";
import { formatBytes, formatInteger, formatSeconds } from "../../document/units";
import { AxisChip } from "../../ui/AxisChip";
import { bringIntoView } from "../../ui/bringIntoView";
import { longKind, shortKind } from "../../ui/colour";
import { useColours, useDocument, usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { useReturnFocus } from "../../ui/useReturnFocus";
import classes from "./Buckets.module.css";

/** The buckets of gradients in the order in which backward fills them, and what is in each. */
export default function BucketModal({
  positions,
  onClose,
}: {
  /** Buckets that stand out and are open. */
  positions: readonly number[];
  onClose(): void;
}) {
  const view = usePlan((state) => state.plan.view);
  useReturnFocus();
  const first = useRef<HTMLLIElement>(null);
  useEffect(() => bringIntoView(first.current), []);
  return (
    <Modal
      opened
      onClose={onClose}
      size="min(760px, 94vw)"
      title="Buckets of gradients"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <p className={classes["note"]}>
        Backward fills them from the top; those that differ in their layers alone stand together.
        The gradients of a bucket share its collectives.
      </p>
      <ScrollRegion label="Buckets" className={classes["scroll"]}>
        <ol className={classes["list"]}>
          {view.buckets.map((bucket, at) => (
            <li
              key={at}
              ref={at === positions[0] ? first : undefined}
              data-current={positions.includes(at)}
              data-testid={`bucket:${at}`}
            >
              <Bucket
                view={view}
                at={at}
                bucket={bucket}
                open={positions.includes(at)}
                onClose={onClose}
              />
            </li>
          ))}
        </ol>
      </ScrollRegion>
    </Modal>
  );
}

function Bucket({
  view,
  at,
  bucket,
  open,
  onClose,
}: {
  view: PlanView;
  at: number;
  bucket: BucketView;
  open: boolean;
  onClose(): void;
}) {
  const document = useDocument();
  const colours = useColours();
  const each = bucket.count > 1 ? " each" : "";
  return (
    <details open={open}>
      <summary>
        <strong>{bucketName(view.buckets, at)}</strong>
        <span className={classes["calls"]}>
          {bucket.calls.map(([kind, axes], call) => (
            <span key={call}>
              <abbr title={longKind(kind)}>{shortKind(kind)}</abbr>{" "}
              {axes.map((axis) => (
                <AxisChip key={axis} name={axis} colour={colours[axis]} small />
              ))}
            </span>
          ))}
        </span>
        <span>
          {formatInteger(bucket.gradients)} {bucket.gradients === 1 ? "gradient" : "gradients"}
          {bucket.layers > 1 && ` of ${formatInteger(bucket.layers)} layers`}
        </span>
        <span className={classes["right"]}>
          {formatBytes(bucket.nbytes)} · {formatSeconds(bucket.seconds)}
          {each}
          {bucket.deferred && ", once a step"}
        </span>
      </summary>
      <ul className={classes["members"]}>
        {bucket.edges.map((id) => {
          const edge = view.edges.find((other) => other.id === id);
          return (
            <li key={id}>
              <button
                type="button"
                className="link mono"
                onClick={() => {
                  document.selectEdge(id);
                  onClose();
                }}
              >
                {edge?.value ?? id}
              </button>
              <span>{edge?.gradient}</span>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
