import { type Box, type Drawn, fraction } from "../../document/slices";
import type { Parts } from "./parts";
import classes from "./picture.module.css";
import { behind, type Fraction, faces, hiddenEdges, SOLID_SIZE, type Solid, WHOLE } from "./solid";

/** Parts that are thinner than this would vanish. */
const LEAST = 2.2;
const STRIP = 7;

interface Piece {
  box: Box;
  kind: "kept" | "new" | "before";
}

/** The whole tensor as a frame, with what one rank holds of it; not to scale. */
export function RankPicture({
  shape,
  drawn,
  parts,
  partial,
}: {
  shape: readonly number[];
  drawn: Drawn;
  parts: Parts;
  partial: boolean;
}) {
  const pieces: Piece[] = [
    ...(parts.before ? [{ box: parts.before, kind: "before" as const }] : []),
    ...(parts.kept ? [{ box: parts.kept, kind: "kept" as const }] : []),
    ...parts.arrived.map((box) => ({ box, kind: "new" as const })),
  ];
  const at = (box: Box, dim: number): Fraction => fraction(box[dim] ?? [0, 0], shape[dim] ?? 0);
  const { width, height } = sizeOf(shape, drawn);
  const bottom = height + drawn.strips.length * (STRIP + 4);
  return (
    <svg className={classes["picture"]} viewBox={`0 0 ${width} ${bottom}`} aria-hidden="true">
      {drawn.span.length === 3 ? (
        <Solids
          pieces={pieces.map(({ box, kind }) => ({
            kind,
            solid: drawn.span.map((dim) => at(box, dim)) as unknown as Solid,
          }))}
          partial={partial}
        />
      ) : (
        <Plane
          width={width}
          height={height}
          partial={partial}
          pieces={pieces.map(({ box, kind }) => {
            const [down, right] = drawn.span.length === 2 ? drawn.span : [-1, drawn.span[0] ?? -1];
            const rows = down !== undefined && down >= 0 ? at(box, down) : ([0, 1] as const);
            const columns = right !== undefined && right >= 0 ? at(box, right) : ([0, 1] as const);
            return { kind, rows, columns };
          })}
        />
      )}
      {drawn.strips.map((dim, position) => (
        <g key={dim} transform={`translate(0 ${height + 4 + position * (STRIP + 4)})`}>
          <Plane
            width={width}
            height={STRIP}
            partial={partial}
            pieces={pieces.map(({ box, kind }) => ({
              kind,
              rows: [0, 1] as const,
              columns: at(box, dim),
            }))}
          />
        </g>
      ))}
    </svg>
  );
}

function sizeOf(shape: readonly number[], drawn: Drawn): { width: number; height: number } {
  if (drawn.span.length === 3) return SOLID_SIZE;
  if (drawn.span.length < 2) return { width: 100, height: drawn.span.length === 1 ? 26 : 60 };
  const [down, right] = drawn.span.map((dim) => Math.max(1, shape[dim] ?? 1)) as [number, number];
  const ratio = Math.min(1.8, Math.max(0.7, right / down));
  return { width: 100, height: 100 / ratio };
}

function Plane({
  width,
  height,
  pieces,
  partial,
}: {
  width: number;
  height: number;
  pieces: readonly { kind: Piece["kind"]; rows: Fraction; columns: Fraction }[];
  partial: boolean;
}) {
  return (
    <>
      <rect
        className={classes["frame"]}
        x={0.5}
        y={0.5}
        width={width - 1}
        height={height - 1}
        rx={2}
      />
      {pieces.map(({ kind, rows, columns }, position) => {
        const [x, w] = stretch(columns, width);
        const [y, h] = stretch(rows, height);
        const place = { x, y, width: w, height: h };
        return (
          <g key={position}>
            <rect className={classes[kind]} {...place} />
            {partial && kind !== "before" && <rect className={classes["hatch"]} {...place} />}
          </g>
        );
      })}
    </>
  );
}

/** From fractions to a length within `1 … size − 1`, wide enough to be seen. */
function stretch([start, extent]: Fraction, size: number): [number, number] {
  const room = size - 2;
  const length = extent === 0 ? 0 : Math.max(LEAST, extent * room);
  return [1 + Math.min(start * room, room - length), length];
}

function Solids({
  pieces,
  partial,
}: {
  pieces: readonly { kind: Piece["kind"]; solid: Solid }[];
  partial: boolean;
}) {
  const painted = pieces.filter(({ kind }) => kind !== "before");
  const before = pieces.find(({ kind }) => kind === "before");
  const whole = faces(WHOLE);
  return (
    <>
      <path className={classes["edge"]} d={hiddenEdges(WHOLE)} />
      {[...painted]
        .sort((one, other) => behind(one.solid, other.solid))
        .map(({ kind, solid }, position) => {
          const { front, top, side } = faces(solid);
          return (
            <g key={position} className={classes["solid"]}>
              <polygon className={classes[kind]} points={side} data-face="side" />
              <polygon className={classes[kind]} points={top} data-face="top" />
              <polygon className={classes[kind]} points={front} />
              {partial &&
                [side, top, front].map((points) => (
                  <polygon key={points} className={classes["hatch"]} points={points} />
                ))}
            </g>
          );
        })}
      {before &&
        Object.values(faces(before.solid)).map((points) => (
          <polygon key={points} className={classes["before"]} points={points} />
        ))}
      {Object.values(whole).map((points) => (
        <polygon key={points} className={classes["edge"]} points={points} />
      ))}
    </>
  );
}
