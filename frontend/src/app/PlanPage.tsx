import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { PlanState } from "../api/types";
import { createPlanDocument, type PlanDocument } from "../document/planDocument";
import { PlanProvider } from "../ui/PlanContext";
import { goToStart } from "../ui/route";
import { Loading, ProblemNote } from "../ui/states";
import { useResource } from "../ui/useResource";
import { Designer } from "./Designer";
import classes from "./Designer.module.css";

/** Opens a plan by its id and holds its document while the page shows it. */
export default function PlanPage({
  id,
  created,
  dark,
  onTheme,
}: {
  id: string;
  created: PlanState | null;
  dark: boolean;
  onTheme(): void;
}) {
  const registry = useResource("registry", api.registry);
  const fetched = useResource(created ? null : id, () => api.plan(id));
  const plan = created ?? fetched.data;
  const [document, setDocument] = useState<PlanDocument | null>(null);

  useEffect(() => {
    if (!plan) return;
    const opened = createPlanDocument(plan, api, new BroadcastChannel("shardwright-plans"));
    setDocument(opened);
    return () => opened.close();
  }, [plan]);

  const problem = fetched.problem ?? registry.problem;
  if (problem) {
    return (
      <main className={classes["alone"]}>
        <h1>This plan can't be opened</h1>
        <ProblemNote
          problem={problem}
          onRetry={() => {
            fetched.reload();
            registry.reload();
          }}
        />
        <Button variant="default" onClick={goToStart}>
          To the start page
        </Button>
      </main>
    );
  }
  if (!document || !registry.data) {
    return (
      <main className={classes["alone"]}>
        <Loading label="Opening the plan" rows={6} />
      </main>
    );
  }
  return (
    <PlanProvider document={document} registry={registry.data}>
      <Designer dark={dark} onTheme={onTheme} />
    </PlanProvider>
  );
}
