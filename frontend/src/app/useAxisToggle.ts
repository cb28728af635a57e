import { type RefObject, useCallback } from "react";
import { api } from "../api/client";
import { toggleAxis } from "../commands/edits";
import type { Reach } from "../document/layers";
import { useDocument } from "../ui/PlanContext";

/** Keys 1–9: toggle an axis of the mesh, by its position, on the factor that has the focus. */
export function useAxisToggle(reach: RefObject<Reach>): (position: number) => void {
  const document = useDocument();
  return useCallback(
    async (position) => {
      const { plan, view, selected, factor } = document.getState();
      const node = view.nodes.find(({ id }) => id === selected);
      const axis = plan.view.mesh[position]?.[0];
      const name = factor ?? node?.factors[0]?.name;
      if (!node || !axis || !name) return;
      document.focusFactor(name);
      // As a chip in the inspector does: what is illegal can't be clicked there either.
      const choices = await api.choices(plan.id, node.id).catch(() => []);
      const choice = choices.find((entry) => entry.factor === name && entry.axis === axis);
      if (choice?.legal) document.edit(toggleAxis(node, choices, name, axis, reach.current));
      else if (choice) document.refuse(`factor:${name}`, choice.reason, choice.remedy);
    },
    [document, reach],
  );
}
