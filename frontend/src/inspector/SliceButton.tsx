import { ActionIcon, Tooltip } from "@mantine/core";
import type { TensorView } from "../api/types";
import { Icon } from "../ui/icons";
import { type SliceSource, useLook } from "../ui/LookContext";

/** Opens the slice map of a tensor. */
export function SliceButton({ of }: { of: SliceSource }) {
  const look = useLook();
  return (
    <Tooltip label="Which rank holds which part">
      <ActionIcon
        size="sm"
        aria-label={`Slice map of ${of.title}`}
        data-testid={`slices:${of.slot || "stored"}`}
        onClick={() => look.slices(of)}
      >
        <Icon name="slices" size={13} />
      </ActionIcon>
    </Tooltip>
  );
}

/** The factors that each dim is made of, or its position. */
export function dimNames(tensor: TensorView): string[] {
  return tensor.cells.map((cell, dim) => cell.factors.join("·") || `dim ${dim}`);
}
