import { type CSSProperties, useState } from "react";
import type { RedistributionStep, Slices } from "../../api/types";
import {
  acrossAxes,
  columnsOf,
  coordinates,
  type Drawn,
  isEmpty,
  partText,
} from "../../document/slices";
import { AxisChip } from "../../ui/AxisChip";
import { type Parts, partsOf } from "./parts";
import classes from "./picture.module.css";
import { RankPicture } from "./RankPicture";

export interface State {
  now: Slices;
  before?: Slices | undefined;
  /** What led here; none at the start. */
  step?: RedistributionStep | undefined;
}

interface Props extends State {
  drawn: Drawn;
  colours: Record<string, string>;
  dims?: readonly string[] | undefined;
}

/** How broad a rank is drawn at most; less where more rows have to share the height. */
const BROADEST = 168;
const NARROWEST = 60;
const HEIGHT = 620;

/** Every rank's part of the tensor, arranged as the mesh is. */
export function Ranks({ now, before, step, drawn, colours, dims }: Props) {
  const [looked, setLooked] = useState(0);
  const { mesh } = now;
  const columns = columnsOf(mesh);
  const across = acrossAxes(mesh);
  const left = mesh.slice(0, mesh.length - across);
  const right = mesh.slice(mesh.length - across);
  const labelled = across > 0;
  const rows = Math.ceil(now.slices.length / columns);
  const shown = Math.min(columns, now.slices.length);
  const broadest = Math.max(NARROWEST, Math.min(BROADEST, HEIGHT / rows - 24));
  const grid = {
    gridTemplateColumns: `${labelled && left.length > 0 ? "max-content " : ""}repeat(${shown}, minmax(44px, ${broadest}px))`,
    gap: rows > 4 || shown > 8 ? "4px 8px" : undefined,
  };
  const hue = { "--hue": colours[step?.axes[0] ?? ""] ?? "var(--sw-accent)" } as CSSProperties;
  const rank = Math.min(looked, now.slices.length - 1);
  return (
    <>
      <Legend now={now} step={step} drawn={drawn} dims={dims} hue={hue} />
      <div
        role="img"
        aria-label={`What each of ${now.slices.length} ranks holds; the table has the same`}
        className={classes["grid"]}
        style={{ ...grid, ...hue }}
        data-testid="ranks"
      >
        {labelled && left.length > 0 && <span />}
        {labelled &&
          Array.from({ length: shown }, (_, column) => (
            <AxisLabel
              key={column}
              className={classes["axisAcross"]}
              axes={right}
              at={coordinates(column, right)}
              colours={colours}
            />
          ))}
        {Array.from({ length: rows }, (_, row) => [
          labelled && left.length > 0 && (
            <AxisLabel
              key={`row ${row}`}
              className={classes["axisDown"]}
              axes={left}
              at={coordinates(row, left)}
              colours={colours}
            />
          ),
          ...Array.from({ length: shown }, (_, column) => {
            const number = row * columns + column;
            if (number >= now.slices.length) return null;
            const parts = partsOf(number, now, before, step);
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: shows in words what the table has, too.
              <div
                key={number}
                className={classes["rank"]}
                data-looked={number === rank}
                data-testid={`rank:${number}`}
                onMouseEnter={() => setLooked(number)}
              >
                <p>
                  {number}
                  {isEmpty(parts.held) && <span>empty</span>}
                </p>
                <RankPicture
                  shape={now.shape}
                  drawn={drawn}
                  parts={parts}
                  partial={now.partial.length > 0}
                />
              </div>
            );
          }),
        ])}
      </div>
      <Detail rank={rank} now={now} parts={partsOf(rank, now, before, step)} />
      <svg className="visually-hidden" aria-hidden="true">
        <defs>
          <pattern
            id="sw-hatch"
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect width="2.4" height="6" style={{ fill: "var(--sw-hatch)" }} />
          </pattern>
        </defs>
      </svg>
    </>
  );
}

function AxisLabel({
  className,
  axes,
  at,
  colours,
}: {
  className: string | undefined;
  axes: readonly (readonly [string, number])[];
  at: readonly number[];
  colours: Record<string, string>;
}) {
  return (
    <span className={className}>
      {axes.map(([name], position) => (
        <AxisChip
          key={name}
          name={name}
          suffix={String(at[position])}
          colour={colours[name]}
          small
        />
      ))}
    </span>
  );
}

const WAYS = [[], ["→"], ["↓", "→"], ["↗", "↓", "→"]];

function Legend({
  now,
  step,
  drawn,
  dims,
  hue,
}: {
  now: Slices;
  step: RedistributionStep | undefined;
  drawn: Drawn;
  dims: readonly string[] | undefined;
  hue: CSSProperties;
}) {
  const name = (dim: number) => dims?.[dim] ?? `dim ${dim}`;
  const ways = WAYS[drawn.span.length] ?? [];
  const shown = [...drawn.span, ...drawn.strips];
  const hidden = now.shape.map((_, dim) => dim).filter((dim) => !shown.includes(dim));
  return (
    <p className={classes["legend"]} style={hue}>
      <Sample className={classes["kept"]} text={step ? "held before and after" : "held"} />
      {step && <Sample className={classes["new"]} text="new with this step" />}
      {step && <Sample className={classes["before"]} text="held before" />}
      {now.partial.length > 0 && (
        <span>
          <svg viewBox="0 0 16 12" aria-hidden="true">
            <rect className={classes["kept"]} width="16" height="12" />
            <rect className={classes["hatch"]} width="16" height="12" />
          </svg>
          {now.reduce} over {now.partial.join("·")} still to come
        </span>
      )}
      {shown.length > 0 && (
        <span>
          {drawn.span.map((dim, position) => `${name(dim)} ${ways[position]}`).join(", ")}
          {drawn.strips.length > 0 && `, strips: ${drawn.strips.map(name).join(", ")}`}
          {hidden.length > 0 && `; ${hidden.map(name).join(", ")} whole`}, not to scale
        </span>
      )}
    </p>
  );
}

function Sample({ className, text }: { className: string | undefined; text: string }) {
  return (
    <span>
      <svg viewBox="0 0 16 12" aria-hidden="true">
        <rect className={className} x="1" y="1" width="14" height="10" />
      </svg>
      {text}
    </span>
  );
}

function Detail({ rank, now, parts }: { rank: number; now: Slices; parts: Parts }) {
  const at = coordinates(rank, now.mesh);
  return (
    <p className={classes["detail"]} data-testid="looked">
      <strong>
        rank {rank} ({now.mesh.map(([name], axis) => `${name} ${at[axis]}`).join(", ")})
      </strong>{" "}
      holds <span className="mono">{partText(parts.held)}</span>
      {parts.arrived.length > 0 && (
        <>
          , new is <span className="mono">{parts.arrived.map(partText).join(" and ")}</span>
        </>
      )}
    </p>
  );
}

/** The same as the picture in words: a row for each rank. */
export function RankTable({ now, before, step, dims }: Omit<Props, "drawn" | "colours">) {
  return (
    <table className={classes["table"]}>
      <caption className="visually-hidden">
        What each rank holds{step ? " after the step" : ""}
      </caption>
      <thead>
        <tr>
          <th scope="col">Rank</th>
          {now.mesh.map(([name]) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
          {now.shape.map((size, dim) => (
            <th key={dim} scope="col">
              {dims?.[dim] ?? `dim ${dim}`} of {size.toLocaleString("en-US")}
            </th>
          ))}
          {step && <th scope="col">New with this step</th>}
        </tr>
      </thead>
      <tbody className="mono">
        {now.slices.map((part, rank) => {
          const parts = partsOf(rank, now, before, step);
          return (
            <tr key={rank}>
              <td>{rank}</td>
              {coordinates(rank, now.mesh).map((place, axis) => (
                <td key={axis}>{place}</td>
              ))}
              {part.map(([start, stop], dim) => (
                <td key={dim}>{start >= stop ? "none" : `${start}:${stop}`}</td>
              ))}
              {step && <td>{parts.arrived.map(partText).join(" ") || "–"}</td>}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
