import { ActionIcon, Tooltip } from "@mantine/core";
import { Icon } from "../ui/icons";
import { useLook } from "../ui/LookContext";

/** Shows the lines of the exported code that an operator or an edge is written on. */
export function CodeButton({ id, of }: { id: string; of: string }) {
  const look = useLook();
  return (
    <Tooltip label="Show in the code" position="left" openDelay={500}>
      <ActionIcon
        size="xs"
        aria-label={`Show ${of} in the code`}
        data-testid={`code:${id}`}
        onClick={() => look.code(id)}
      >
        <Icon name="code" size={13} />
      </ActionIcon>
    </Tooltip>
  );
}
