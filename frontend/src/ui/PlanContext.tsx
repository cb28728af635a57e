import { createContext, type ReactNode, useContext, useMemo } from "react";
import { useStore } from "zustand";
import { api } from "../api/client";
import type { NodeView, Registry, Report } from "../api/types";
import type { PlanDocument, PlanDocumentState } from "../document/planDocument";
import { axisColours } from "./colour";
import { type Resource, useResource } from "./useResource";

interface Open {
  document: PlanDocument;
  registry: Registry;
  fetchReport(key: string, id: string): Promise<Report>;
}

const Context = createContext<Open | null>(null);

export function PlanProvider({
  document,
  registry,
  children,
}: {
  document: PlanDocument;
  registry: Registry;
  children: ReactNode;
}) {
  const open = useMemo((): Open => {
    // Several panels show parts of one report: the last one asked for is kept.
    let last: { key: string; report: Promise<Report> } | undefined;
    return {
      document,
      registry,
      fetchReport(key, id) {
        if (last?.key === key) return last.report;
        const asked = { key, report: api.report(id) };
        last = asked;
        // A failure is not kept: who asks again asks the server.
        asked.report.catch(() => {
          if (last === asked) last = undefined;
        });
        return asked.report;
      },
    };
  }, [document, registry]);
  return <Context value={open}>{children}</Context>;
}

function useOpen(): Open {
  const open = useContext(Context);
  if (!open) throw new Error("No plan is open here.");
  return open;
}

export const useDocument = (): PlanDocument => useOpen().document;
export const useRegistry = (): Registry => useOpen().registry;

export function usePlan<T>(selector: (state: PlanDocumentState) => T): T {
  return useStore(useOpen().document, selector);
}

export function useColours(): Record<string, string> {
  const mesh = usePlan((state) => state.plan.view.mesh);
  return useMemo(() => axisColours(mesh.map(([name]) => name)), [mesh]);
}

/** The operator that is selected; null for a group or nothing. */
export function useSelectedNode(): NodeView | null {
  return usePlan((state) => state.view.nodes.find((node) => node.id === state.selected) ?? null);
}

/** The report of the plan as it is now, fetched when `wanted`. */
export function useReport(wanted: boolean): Resource<Report> {
  const { fetchReport } = useOpen();
  const { id, version } = usePlan((state) => state.plan);
  const key = `${id}@${version}`;
  return useResource(wanted ? key : null, () => fetchReport(key, id));
}
