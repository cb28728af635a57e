import { ActionIcon, Tooltip } from "@mantine/core";
import { Icon } from "../ui/icons";
import { useDocument } from "../ui/PlanContext";

/** Selects nothing, which shows the plan as a whole with what is set for all of it. */
export function BackToPlan() {
  const document = useDocument();
  return (
    <Tooltip label="The plan: gradients, memory, precision" position="left" openDelay={500}>
      <ActionIcon
        size="xs"
        aria-label="Show the plan as a whole"
        data-testid="back-to-plan"
        onClick={() => document.select(null)}
      >
        <Icon name="close" size={13} />
      </ActionIcon>
    </Tooltip>
  );
}
