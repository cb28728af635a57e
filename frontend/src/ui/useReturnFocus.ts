import { useEffect, useState } from "react";

/** Gives the focus back, when a dialog is gone, to what had it before: such a dialog is taken away, not closed. */
export function useReturnFocus(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      // After the dialog's own trap has let go.
      setTimeout(() => {
        if (before instanceof HTMLElement && before.isConnected) {
          before.focus({ preventScroll: true });
        }
      });
    },
    [before],
  );
}
