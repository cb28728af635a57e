// The table of commands: the palette, the keys and the list of keys are made from it.
import type { PresetEntry } from "../api/types";
import type { PlanDocument } from "../document/planDocument";
import { follow, sibling, type Tree } from "../document/tree";
import { applyPreset, clearAll, presetLabel, presetPlaces } from "./edits";

/** What commands ask of the page around the plan. */
export interface Shell {
  tree(): Tree;
  presets: readonly PresetEntry[];
  fit(): void;
  actualSize(): void;
  toggleOpen(id: string): void;
  toggleAxis(position: number): void;
  focusFilter(): void;
  find(): void;
  help(): void;
  toggleTheme(): void;
  setDirection(direction: "forward" | "backward"): void;
  openPanel(name: string): void;
  openSettings(): void;
  /** Shows what is set for the whole plan in the inspector, and goes there. */
  openTraining(): void;
  openRedistribution(): void;
  copyPlan(): void;
  downloadCode(): void;
  /** Shows the lines that what is selected is written on. */
  showCode(): void;
  downloadFile(): void;
  goStart(): void;
}

export interface Command {
  id: string;
  group: "Edit" | "Move" | "View" | "Presets" | "Plan";
  label: string;
  keys?: string[];
  /** Left out of the palette: makes no sense there. */
  keysOnly?: boolean;
  enabled(): boolean;
  run(): void;
}

const always = () => true;

export function commandsOf(document: PlanDocument, shell: Shell): Command[] {
  const { getState } = document;
  const selected = () => getState().selected;
  const move = (to: string | null) => {
    if (to) document.select(to);
  };
  const isSelected = () => selected() !== null;

  const edit: Command[] = [
    {
      id: "undo",
      group: "Edit",
      label: `Undo${getState().plan.undo ? `: ${getState().plan.undo}` : ""}`,
      keys: ["mod+z"],
      enabled: () => getState().plan.undo !== null || getState().pending,
      run: document.undo,
    },
    {
      id: "redo",
      group: "Edit",
      label: `Redo${getState().plan.redo ? `: ${getState().plan.redo}` : ""}`,
      keys: ["mod+shift+z"],
      enabled: () => getState().plan.redo !== null,
      run: document.redo,
    },
    ...Array.from({ length: 9 }, (_, position): Command => {
      const axis = getState().plan.view.mesh[position]?.[0];
      return {
        id: `axis-${position + 1}`,
        group: "Edit",
        label: `Toggle ${axis ?? `axis ${position + 1}`} on the focused factor`,
        keys: [`${position + 1}`],
        keysOnly: axis === undefined,
        enabled: () => axis !== undefined && isSelected(),
        run: () => shell.toggleAxis(position),
      };
    }),
  ];

  const moves: Command[] = [
    {
      id: "reader",
      group: "Move",
      label: "Follow the edge to a reader",
      keys: ["arrowdown"],
      enabled: isSelected,
      run: () => move(follow(getState().view, selected() ?? "", "down")),
    },
    {
      id: "producer",
      group: "Move",
      label: "Follow the edge to a producer",
      keys: ["arrowup"],
      enabled: isSelected,
      run: () => move(follow(getState().view, selected() ?? "", "up")),
    },
    {
      id: "previous",
      group: "Move",
      label: "Previous in the group",
      keys: ["arrowleft"],
      enabled: isSelected,
      run: () => move(sibling(shell.tree(), selected() ?? "", -1)),
    },
    {
      id: "next",
      group: "Move",
      label: "Next in the group",
      keys: ["arrowright"],
      enabled: isSelected,
      run: () => move(sibling(shell.tree(), selected() ?? "", 1)),
    },
    {
      id: "open",
      group: "Move",
      label: "Open or close the group",
      keys: ["enter"],
      enabled: isSelected,
      run: () => shell.toggleOpen(selected() ?? ""),
    },
    {
      id: "clear-selection",
      group: "Move",
      label: "Select nothing",
      keys: ["escape"],
      keysOnly: true,
      enabled: () => isSelected() || getState().marked.length > 0,
      run: () => document.select(null),
    },
  ];

  const view: Command[] = [
    {
      id: "find",
      group: "View",
      label: "Find",
      keys: ["mod+k"],
      keysOnly: true,
      enabled: always,
      run: shell.find,
    },
    {
      id: "filter",
      group: "View",
      label: "Filter the outline",
      keys: ["/"],
      enabled: always,
      run: shell.focusFilter,
    },
    {
      id: "fit",
      group: "View",
      label: "Fit the graph",
      keys: ["f"],
      enabled: always,
      run: shell.fit,
    },
    {
      id: "actual",
      group: "View",
      label: "Graph at 100%",
      keys: ["0"],
      enabled: always,
      run: shell.actualSize,
    },
    {
      id: "forward",
      group: "View",
      label: "Show forward collectives",
      enabled: always,
      run: () => shell.setDirection("forward"),
    },
    {
      id: "backward",
      group: "View",
      label: "Show backward collectives",
      enabled: always,
      run: () => shell.setDirection("backward"),
    },
    ...["Communication", "Costs", "Pipeline", "Code", "Prove", "Diagnostics"].map(
      (name): Command => ({
        id: `panel-${name.toLowerCase()}`,
        group: "View",
        label: `Show ${name.toLowerCase()}`,
        enabled: always,
        run: () => shell.openPanel(name.toLowerCase()),
      }),
    ),
    {
      id: "show-code",
      group: "View",
      label: "Show what is selected in the code",
      keys: ["c"],
      enabled: isSelected,
      run: shell.showCode,
    },
    {
      id: "redistribute",
      group: "View",
      label: "From one layout to another, step by step",
      keys: ["r"],
      enabled: always,
      run: shell.openRedistribution,
    },
    { id: "theme", group: "View", label: "Light or dark", enabled: always, run: shell.toggleTheme },
    { id: "help", group: "View", label: "Keys", keys: ["?"], enabled: always, run: shell.help },
  ];

  const presets = shell.presets.flatMap((preset) =>
    presetPlaces(
      preset,
      getState().plan.view.mesh.map(([axis]) => axis),
    ).map(
      (axis): Command => ({
        id: axis === null ? `preset-${preset.name}` : `preset-${preset.name}-${axis}`,
        group: "Presets",
        label: presetLabel(preset, axis),
        enabled: always,
        run: () => document.edit(applyPreset(preset, axis)),
      }),
    ),
  );

  const plan: Command[] = [
    {
      id: "settings",
      group: "Plan",
      label: "Mesh and batch",
      enabled: always,
      run: shell.openSettings,
    },
    {
      id: "training",
      group: "Plan",
      label: "Gradients, memory and precision",
      enabled: always,
      run: shell.openTraining,
    },
    {
      id: "clear",
      group: "Plan",
      label: "Clear all decisions",
      enabled: always,
      run: () => document.edit(clearAll()),
    },
    { id: "copy", group: "Plan", label: "Copy this plan", enabled: always, run: shell.copyPlan },
    {
      id: "zip",
      group: "Plan",
      label: "Download the code",
      enabled: always,
      run: shell.downloadCode,
    },
    {
      id: "file",
      group: "Plan",
      label: "Download the plan file",
      enabled: always,
      run: shell.downloadFile,
    },
    {
      id: "start",
      group: "Plan",
      label: "Go to the start page",
      enabled: always,
      run: shell.goStart,
    },
  ];

  return [...edit, ...moves, ...view, ...presets, ...plan];
}
