import { Spotlight, type SpotlightActionGroupData, spotlight } from "@mantine/spotlight";
import { useMemo } from "react";
import type { Command } from "../commands/commands";
import { keyCaps } from "../commands/keys";
import { Icon } from "../ui/icons";
import { usePlan } from "../ui/PlanContext";

export const openFind = spotlight.open;

/** Operators and commands by name. */
export function FindPalette({
  commands,
  onNode,
}: {
  commands: readonly Command[];
  onNode(id: string): void;
}) {
  const nodes = usePlan((state) => state.plan.view.nodes);
  const operators = useMemo(
    (): SpotlightActionGroupData => ({
      group: "Operators",
      actions: nodes.map((node) => ({
        id: `node ${node.id}`,
        label: node.label,
        description: node.name,
        keywords: [node.op, node.name],
        onClick: () => onNode(node.id),
      })),
    }),
    [nodes, onNode],
  );
  const groups = [...new Set(commands.map((command) => command.group))].map(
    (group): SpotlightActionGroupData => ({
      group,
      actions: commands
        .filter((command) => command.group === group && !command.keysOnly && command.enabled())
        .map((command) => ({
          id: command.id,
          label: command.label,
          rightSection: command.keys && (
            <kbd>{command.keys.map((keys) => keyCaps(keys).join(" ")).join(", ")}</kbd>
          ),
          onClick: command.run,
        })),
    }),
  );
  return (
    <Spotlight
      actions={[operators, ...groups.filter((group) => group.actions.length > 0)]}
      attributes={{ content: { "aria-label": "Find" } }}
      centered={false}
      yOffset="10vh"
      overlayProps={{ backgroundOpacity: 0.35, blur: 0 }}
      shortcut={null}
      limit={30}
      scrollable
      maxHeight={460}
      nothingFound="Nothing found"
      searchProps={{
        leftSection: <Icon name="search" />,
        placeholder: "Operator or command",
        "aria-label": "Find an operator or a command",
      }}
    />
  );
}
