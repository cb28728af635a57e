import { Tooltip } from "@mantine/core";
import { type ReactElement, type ReactNode, useRef, useState } from "react";

const HOVER_MS = 500;

/** A tooltip (none without a label) that waits for a resting mouse and comes at once for the keyboard; it lies left, clear of the next rows. */
export function Reason({ label, children }: { label: ReactNode; children: ReactElement }) {
  const [open, setOpen] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const close = () => {
    clearTimeout(timer.current);
    setOpen(false);
  };
  return (
    <Tooltip label={label} opened={open && label !== null} position="left" maw={300}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: only listens to what happens to the control inside. */}
      <span
        style={{ display: "inline-flex" }}
        onMouseEnter={() => {
          timer.current = setTimeout(() => setOpen(true), HOVER_MS);
        }}
        onMouseLeave={close}
        onFocus={(event) => event.target.matches(":focus-visible") && setOpen(true)}
        onBlur={close}
        onClick={close}
        onKeyDown={(event) => event.key === "Escape" && close()}
      >
        {children}
      </span>
    </Tooltip>
  );
}
