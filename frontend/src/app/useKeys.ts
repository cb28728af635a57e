import { useEffect, useRef } from "react";
import type { Command } from "../commands/commands";
import { pressed } from "../commands/keys";

/** Runs commands by their keys, unless somebody types or a dialog is open. */
export function useKeys(commands: readonly Command[]): void {
  const latest = useRef(commands);
  latest.current = commands;
  useEffect(() => {
    function press(event: KeyboardEvent) {
      if (event.defaultPrevented) return;
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (target?.closest('[role="dialog"], [role="menu"], [role="listbox"]')) return;
      for (const command of latest.current) {
        const keys = command.keys?.find((candidate) => pressed(event, candidate));
        if (!keys) continue;
        if (target && isTyping(target) && keys !== "mod+k") return;
        // Keys without Ctrl belong to the control that has the focus, where it has a use for them.
        if (target && !keys.startsWith("mod") && usesKey(target, event.key)) return;
        event.preventDefault();
        if (command.enabled()) command.run();
        return;
      }
    }
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

function isTyping(target: HTMLElement): boolean {
  // What is switched or chosen takes no text, and has nothing of its own to undo.
  if (target instanceof HTMLInputElement) return !/^(checkbox|radio)$/.test(target.type);
  return target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName);
}

function usesKey(target: HTMLElement, key: string): boolean {
  if (key === "Enter") return target.closest("button, a, input, [role=treeitem]") !== null;
  if (key.startsWith("Arrow")) {
    return (
      target.closest("[role=tab], [role=radiogroup], [role=separator], section[tabindex]") !== null
    );
  }
  return false;
}
