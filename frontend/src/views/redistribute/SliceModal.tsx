import { Modal, SegmentedControl } from "@mantine/core";
import { useMemo, useState } from "react";
import { api } from "../../api/client";
import { drawnDims } from "../../document/slices";
import { formatInteger } from "../../document/units";
import type { SliceSource } from "../../ui/LookContext";
import { useColours, usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import { useReturnFocus } from "../../ui/useReturnFocus";
import { Ranks, RankTable } from "./Ranks";
import classes from "./Redistribution.module.css";

/** Which part of a tensor of the plan each rank holds. */
export default function SliceModal({ of, onClose }: { of: SliceSource; onClose(): void }) {
  const { id, version } = usePlan((state) => state.plan);
  const colours = useColours();
  useReturnFocus();
  const [view, setView] = useState("picture");
  const found = useResource(`${id}@${version}/${of.node}/${of.slot}`, () =>
    api.slices(id, of.node, of.slot),
  );
  const now = found.data;
  const drawn = useMemo(() => now && drawnDims(now.shape, [now.slices]), [now]);
  return (
    <Modal
      opened
      onClose={onClose}
      size="min(1020px, 94vw)"
      title={`Slice map of ${of.title}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={classes["slices"]}>
        {found.problem && <ProblemNote problem={found.problem} onRetry={found.reload} />}
        {!now && !found.problem && <Loading label="Loading the slice map" />}
        {now && drawn && (
          <>
            <div className={classes["sliceHead"]}>
              <p>
                <strong className="mono">{now.layout}</strong> of{" "}
                {now.shape.map(formatInteger).join(" × ") || "a single value"}, {of.dtype}, on{" "}
                {formatInteger(now.ranks)} ranks
              </p>
              <SegmentedControl
                aria-label="Show as"
                value={view}
                onChange={setView}
                data={[
                  { value: "picture", label: "Picture" },
                  { value: "table", label: "Table" },
                ]}
              />
            </div>
            <ScrollRegion label="Ranks" className={classes["ranks"]}>
              {view === "picture" ? (
                <Ranks now={now} drawn={drawn} colours={colours} dims={of.dims} />
              ) : (
                <RankTable now={now} dims={of.dims} />
              )}
            </ScrollRegion>
            {now.note && <p className={classes["note"]}>Shown are {now.note}.</p>}
          </>
        )}
      </div>
    </Modal>
  );
}
