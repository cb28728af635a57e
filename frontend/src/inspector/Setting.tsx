import type { ReactNode } from "react";
import classes from "./inspector.module.css";

/** A control with its name before it; the control names itself for screen readers, in full. */
export function Setting({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={classes["setting"]}>
      <span aria-hidden="true">{label}</span>
      {children}
    </div>
  );
}
