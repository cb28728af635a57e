import type { Cell, TensorView } from "../api/types";
import { formatInteger } from "../document/units";
import { AxisChip, chipColour } from "./AxisChip";
import classes from "./chips.module.css";

/** The size of a dim on one rank, from the smallest part to the largest where they are unequal. */
const onARank = ({ least, local }: Cell) =>
  least === local ? formatInteger(local) : `${formatInteger(least)}–${formatInteger(local)}`;

const whole = ({ size, total, least, local }: Cell) =>
  `${size} = ${total} in all${least === local ? "" : ", cut into unequal parts"}`;

/** A tensor as one cell per dim: what it is made of, the axes that shard it, its size on one rank. */
export function Cells({
  tensor,
  colours,
  focused,
  onFactor,
}: {
  tensor: TensorView;
  colours: Record<string, string>;
  focused?: string | null;
  onFactor?(factor: string): void;
}) {
  return (
    <div className={classes["cells"]}>
      {tensor.cells.map((cell, dim) => {
        const name = cell.factors.join("·") || cell.size;
        const factor = cell.factors[0];
        const body = (
          <>
            <span className={classes["cellName"]}>{name}</span>
            <span className={classes["cellAxes"]}>
              {cell.axes.map((axis) => (
                <AxisChip key={axis} name={axis} colour={colours[axis]} small />
              ))}
            </span>
            <span className={classes["cellSize"]} title={whole(cell)}>
              {onARank(cell)}
            </span>
          </>
        );
        const marked = factor !== undefined && cell.factors.includes(focused ?? "");
        return onFactor && factor !== undefined ? (
          <button
            key={dim}
            type="button"
            className={`plain-button ${classes["cell"]}`}
            data-focused={marked}
            onClick={() => onFactor(factor)}
          >
            {body}
            <span className="visually-hidden">
              {` of ${cell.total}, dim ${dim} of ${tensor.slot || tensor.value}`}
            </span>
          </button>
        ) : (
          <div key={dim} className={classes["cell"]}>
            {body}
          </div>
        );
      })}
      {tensor.partial.map((axis) => (
        <span
          key={axis}
          className={classes["partial"]}
          style={chipColour(colours[axis])}
          title={`Partial over ${axis}: ranks hold parts that are still to be combined by ${tensor.reduce}`}
        >
          Σ{axis}
        </span>
      ))}
    </div>
  );
}
