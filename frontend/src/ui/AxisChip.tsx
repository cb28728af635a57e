import type { CSSProperties } from "react";
import classes from "./chips.module.css";
import { textOn } from "./colour";

/** A mesh axis in its hue, with its name always written. */
export function AxisChip({
  name,
  colour,
  suffix,
  small,
}: {
  name: string;
  colour: string | undefined;
  suffix?: string;
  small?: boolean;
}) {
  const fill = colour ?? "#808a98";
  return (
    <span
      className={`${classes["chip"]} ${small ? classes["small"] : ""}`}
      style={{ background: fill, color: textOn(fill) }}
    >
      {name}
      {suffix && ` ${suffix}`}
    </span>
  );
}

export function chipColour(colour: string | undefined): CSSProperties {
  return { "--chip-colour": colour ?? "#808a98" } as CSSProperties;
}
