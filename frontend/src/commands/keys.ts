// Keys as text, e.g. `mod+shift+z`; `mod` is Ctrl, or ⌘ on a Mac.

export interface KeyPress {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
  altKey: boolean;
}

export function pressed(event: KeyPress, keys: string): boolean {
  const parts = keys.split("+");
  const key = parts.at(-1) ?? "";
  const mod = event.ctrlKey || event.metaKey;
  if (mod !== parts.includes("mod") || event.altKey) return false;
  // `?` and `/` need Shift on some keyboards, so that only letters ask for its state.
  const letter = /^[a-z]$/.test(key);
  if (letter && event.shiftKey !== parts.includes("shift")) return false;
  return event.key.toLowerCase() === key.toLowerCase();
}

const NAMES: Record<string, string> = {
  mod: "Ctrl",
  shift: "Shift",
  arrowup: "↑",
  arrowdown: "↓",
  arrowleft: "←",
  arrowright: "→",
  escape: "Esc",
  enter: "Enter",
};

/** `mod+shift+z` → `["Ctrl", "Shift", "Z"]`, to be shown as key caps. */
export function keyCaps(keys: string): string[] {
  return keys.split("+").map((part) => NAMES[part] ?? part.toUpperCase());
}
