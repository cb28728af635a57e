import { ActionIcon, SegmentedControl, Slider } from "@mantine/core";
import { type KeyboardEvent, useMemo, useState } from "react";
import type { RedistributionAnswer } from "../../api/types";
import { drawnDims } from "../../document/slices";
import { formatPercent } from "../../document/units";
import { axisColours } from "../../ui/colour";
import { Icon } from "../../ui/icons";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Loading } from "../../ui/states";
import { Ranks, RankTable } from "./Ranks";
import classes from "./Redistribution.module.css";
import { RedistributionForm } from "./RedistributionForm";
import { Front, Steps, stateText, Totals } from "./Steps";
import { usePlayer } from "./usePlayer";
import type { Redistribution } from "./useRedistribution";

/** From a layout to a layout: the form, the cheapest way, and who holds what after each step of it. */
export function RedistributionTool({ form }: { form: Redistribution }) {
  const { answer, busy, refused } = form;
  return (
    <div className={classes["tool"]}>
      <RedistributionForm form={form} />
      {answer ? (
        <Walk answer={answer} busy={busy} still={refused !== null} />
      ) : (
        !refused && <Loading label="Finding the way" rows={6} />
      )}
    </div>
  );
}

function Walk({
  answer,
  busy,
  still,
}: {
  answer: RedistributionAnswer;
  busy: boolean;
  /** What was asked since is refused; the last answer stays. */
  still: boolean;
}) {
  const count = answer.slices.length;
  const player = usePlayer(count, answer);
  const { at, go } = player;
  const [view, setView] = useState("picture");
  const colours = useMemo(() => {
    const names = answer.slices.flatMap((state) => state.mesh.map(([name]) => name));
    return axisColours([...new Set(names)]);
  }, [answer]);
  const now = answer.slices[at];
  // The dims that any state of this shape cuts, so that the picture stays the same from step to step.
  const drawn = useMemo(() => {
    const shape = now?.shape ?? [];
    const alike = answer.slices.filter((other) => other.shape.join() === shape.join());
    return drawnDims(
      shape,
      alike.map((other) => other.slices),
    );
  }, [answer, now]);
  if (!now) return null;
  const state = { now, before: answer.slices[at - 1], step: answer.steps[at - 1] };

  function press(event: KeyboardEvent) {
    const target = event.target as HTMLElement;
    // The slider and the switch use arrows themselves.
    if (target.closest('input, [role="slider"], [role="radiogroup"]')) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: count - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(to);
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that every control inside shares.
    <div className={classes["walk"]} data-busy={busy} onKeyDown={press}>
      <ScrollRegion label="The way" className={classes["way"]}>
        {still && (
          <p className={classes["still"]}>
            Still shown:{" "}
            <span className="mono">
              {answer.source} → {answer.target}
            </span>
          </p>
        )}
        <Totals answer={answer} />
        {answer.gap !== null && answer.gap > 0 && (
          <p className={classes["still"]}>
            Not searched to the end: at most {formatPercent(answer.gap)} above the best way.
          </p>
        )}
        {answer.operators.length > 0 && (
          <p className={classes["still"]}>
            MindSpore runs <span className="mono">{answer.operators.join(", ")}</span>
          </p>
        )}
        {answer.steps.length === 0 && (
          <p className={classes["nothing"]}>Nothing has to move: both layouts are the same.</p>
        )}
        <Steps answer={answer} at={at} colours={colours} onGo={go} />
        <Front answer={answer} />
      </ScrollRegion>
      <section className={classes["stage"]} aria-label="Who holds what">
        <div className={classes["player"]}>
          <ActionIcon
            variant="default"
            aria-label="Step back"
            disabled={at === 0}
            onClick={() => go(at - 1)}
          >
            <Icon name="chevronLeft" />
          </ActionIcon>
          <ActionIcon
            variant="default"
            aria-label={player.playing ? "Pause" : "Play"}
            disabled={count < 2}
            onClick={player.toggle}
          >
            <Icon name={player.playing ? "pause" : "play"} />
          </ActionIcon>
          <ActionIcon
            variant="default"
            aria-label="Step forward"
            disabled={at >= count - 1}
            onClick={() => go(at + 1)}
          >
            <Icon name="chevronRight" />
          </ActionIcon>
          <Slider
            className={classes["slider"]}
            thumbLabel="Step"
            min={0}
            max={Math.max(1, count - 1)}
            step={1}
            value={at}
            disabled={count < 2}
            label={null}
            marks={Array.from({ length: count }, (_, value) => ({ value }))}
            onChange={go}
          />
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
        <p className={classes["state"]} role="status" data-testid="state">
          {stateText(answer, at)}
        </p>
        <ScrollRegion label="Ranks" className={classes["ranks"]}>
          {view === "picture" ? (
            <Ranks {...state} drawn={drawn} colours={colours} />
          ) : (
            <RankTable {...state} />
          )}
        </ScrollRegion>
        {now.note && <p className={classes["note"]}>Shown are {now.note}.</p>}
      </section>
    </div>
  );
}
