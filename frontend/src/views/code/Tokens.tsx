import { memo } from "react";
import type { Token } from "../../ui/highlight";
import classes from "./Code.module.css";

/** A line of source in colours. */
export const Tokens = memo(function Tokens({ line }: { line: readonly Token[] }) {
  return line.map(({ kind, text }, position) =>
    kind === "plain" ? (
      text
    ) : (
      <span key={position} className={classes[kind]}>
        {text}
      </span>
    ),
  );
});
