import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";
import type { PipelineView } from "../../api/types";
import { limits, moved, spans, unitAt } from "../../document/stages";
import { formatSeconds } from "../../document/units";
import classes from "./stages.module.css";

/** The model as a strip, each unit as wide as it is costly, cut where stages begin; a cut can be dragged or stepped. */
export function StageStrip({
  view,
  onMove,
  onStage,
}: {
  view: PipelineView;
  onMove(stage: number, unit: number): void;
  onStage(stage: number): void;
}) {
  const strip = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ stage: number; unit: number } | null>(null);
  if (!view.cuts) return null;
  const cuts = drag ? moved(view.cuts, drag.stage, drag.unit) : view.cuts;
  const weights = view.units.map((unit) => unit.seconds);
  const stages = spans(cuts, weights);
  const slowest = Math.max(...stages.map((stage) => stage.seconds));

  function follow(event: PointerEvent<HTMLElement>, stage: number) {
    const box = strip.current?.getBoundingClientRect();
    if (!box || !view.cuts) return;
    const unit = unitAt(weights, (event.clientX - box.left) / box.width);
    const [least, most] = limits(view.cuts, stage);
    setDrag({ stage, unit: Math.min(most, Math.max(least, unit)) });
  }
  function drop() {
    if (drag && view.cuts && drag.unit !== view.cuts[drag.stage]) onMove(drag.stage, drag.unit);
    setDrag(null);
  }
  function step(event: KeyboardEvent<HTMLElement>, stage: number) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || !view.cuts) return;
    event.preventDefault();
    const [least, most] = limits(view.cuts, stage);
    const unit = (view.cuts[stage] ?? 0) + by;
    if (unit >= least && unit <= most) onMove(stage, unit);
  }

  return (
    <fieldset className={classes["strip"]} ref={strip as never} data-testid="stage-strip">
      <legend className="visually-hidden">Stages along the model</legend>
      {stages.map((stage) => (
        <button
          key={stage.index}
          type="button"
          className={classes["stage"]}
          data-odd={stage.index % 2 === 1}
          data-slowest={stage.seconds === slowest}
          style={{ left: `${stage.left * 100}%`, width: `${stage.width * 100}%` }}
          title={`stage ${stage.index}: ${stage.count} of ${view.units.length} layers and operators, ${formatSeconds(stage.seconds)} a microbatch`}
          onClick={() => onStage(stage.index)}
        >
          {stage.index}
          <span> ×{stage.count}</span>
        </button>
      ))}
      {stages.slice(1).map((stage) => {
        const [least, most] = limits(view.cuts ?? [], stage.index);
        return (
          <div
            key={stage.index}
            role="slider"
            tabIndex={0}
            className={classes["cut"]}
            data-moving={drag?.stage === stage.index}
            aria-label={`Begin of stage ${stage.index}`}
            aria-valuemin={least}
            aria-valuemax={most}
            aria-valuenow={cuts[stage.index] ?? 0}
            aria-valuetext={view.units[cuts[stage.index] ?? 0]?.name ?? ""}
            title={`Stage ${stage.index} begins with ${view.units[cuts[stage.index] ?? 0]?.name}. Drag it, or use the arrow keys.`}
            style={{ left: `${stage.left * 100}%` }}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              setDrag({ stage: stage.index, unit: view.cuts?.[stage.index] ?? 0 });
            }}
            onPointerMove={(event) => drag && follow(event, stage.index)}
            onPointerUp={drop}
            onPointerCancel={() => setDrag(null)}
            onKeyDown={(event) => step(event, stage.index)}
          />
        );
      })}
    </fieldset>
  );
}
