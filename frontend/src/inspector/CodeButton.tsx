import { ActionIcon, Tooltip } from "@mantine/core";
import type { Part } from "../document/code";
import { Icon } from "../ui/icons";
import { useLook } from "../ui/LookContext";

/** Shows the lines of the exported code that an operator or an edge is written on. */
export function CodeButton({ part, of }: { part: Part; of: string }) {
  const look = useLook();
  return (
    <Tooltip label="Show in the code" position="left" openDelay={500}>
      <ActionIcon
        size="xs"
        aria-label={`Show the ${part.kind === "edge" ? "edge" : "operator"} ${of} in the code`}
        data-testid={`code:${part.kind}:${part.id}`}
        onClick={() => look.code(part)}
      >
        <Icon name="code" size={13} />
      </ActionIcon>
    </Tooltip>
  );
}
