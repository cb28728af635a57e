import { ActionIcon, Alert } from "@mantine/core";
import { useEffect, useState } from "react";
import { ApiError, api, problemOf } from "../../api/client";
import type { NewPlan, PlanState, Problem } from "../../api/types";
import { Icon } from "../../ui/icons";
import { follow, pipelinePath, redistributionPath } from "../../ui/route";
import { ProblemNote } from "../../ui/states";
import { useJob } from "../../ui/useJob";
import { useResource } from "../../ui/useResource";
import { Brand } from "../Brand";
import { ExampleCards } from "./ExampleCards";
import { ImportBox } from "./ImportBox";
import { NewPlanForm } from "./NewPlanForm";
import { RecentPlans } from "./RecentPlans";
import classes from "./StartPage.module.css";

export default function StartPage({
  dark,
  onTheme,
  onOpen,
}: {
  dark: boolean;
  onTheme(): void;
  onOpen(plan: PlanState): void;
}) {
  const registry = useResource("registry", api.registry);
  const models = useResource("models", api.models);
  const plans = useResource("plans", api.plans);
  const [busy, setBusy] = useState<string | null>(null);
  const [problem, setProblem] = useState<{ at: string; problem: Problem } | null>(null);
  const [imported, setImported] = useState<string | null>(null);
  const running = useJob();
  const found = running.job?.state === "done" ? (running.job.model?.id ?? null) : null;
  const reloadModels = models.reload;

  useEffect(() => {
    if (!found) return;
    reloadModels();
    setImported(found);
  }, [found, reloadModels]);

  async function create(at: string, make: () => Promise<PlanState>) {
    setBusy(at);
    setProblem(null);
    try {
      onOpen(await make());
    } catch (error) {
      setProblem({ at, problem: problemOf(error) });
    } finally {
      setBusy(null);
    }
  }
  function importFile(name: string, file: Blob) {
    setProblem(null);
    setImported(null);
    return running.start(() => api.importModel(name, file));
  }
  async function addConfig(name: string, text: string) {
    running.clear();
    setBusy("import");
    setProblem(null);
    try {
      const model = await api.addModel(name, text);
      models.reload();
      setImported(model.id);
    } catch (error) {
      // A config that has to be traced takes as long as a job may.
      if (error instanceof ApiError && error.problem.code === "http.takes-long")
        await importFile(name, new Blob([text]));
      else setProblem({ at: "import", problem: problemOf(error) });
    } finally {
      setBusy(null);
    }
  }
  const problemAt = (at: string) => (problem?.at === at ? problem.problem : null);
  const failed = registry.problem ?? models.problem;

  return (
    <div className={classes["page"]}>
      <header className={classes["top"]}>
        <Brand />
        <a className={classes["tool"]} href={redistributionPath()} onClick={follow}>
          From one layout to another
        </a>
        <a className={classes["tool"]} href={pipelinePath()} onClick={follow}>
          Pipeline schedules
        </a>
        <ActionIcon aria-label={dark ? "Light theme" : "Dark theme"} onClick={onTheme}>
          <Icon name={dark ? "sun" : "moon"} />
        </ActionIcon>
      </header>
      <main className={classes["main"]}>
        <div className={classes["lead"]}>
          <h1>Decide how a model is split, and see at once what it costs.</h1>
          <p>Open an example or your own model. No cluster and no GPU is needed to plan.</p>
        </div>
        {failed && (
          <ProblemNote
            problem={failed}
            onRetry={() => {
              registry.reload();
              models.reload();
              plans.reload();
            }}
          />
        )}
        <section aria-labelledby="examples">
          <h2 id="examples">Examples</h2>
          <ExampleCards
            busy={busy}
            problemAt={problemAt}
            onCreate={(at: string, plan: NewPlan) => create(at, () => api.createPlan(plan))}
          />
        </section>
        <section aria-labelledby="recent">
          <h2 id="recent">Recent plans</h2>
          <RecentPlans plans={plans} />
        </section>
        <div className={classes["columns"]}>
          <section aria-labelledby="new">
            <h2 id="new">New plan</h2>
            <NewPlanForm
              models={models.data}
              registry={registry.data}
              preferred={imported}
              busy={busy === "new"}
              problem={problemAt("new")}
              onCreate={(plan) => create("new", () => api.createPlan(plan))}
            />
          </section>
          <section aria-labelledby="import">
            <h2 id="import">Your own</h2>
            <ImportBox
              busy={busy === "import"}
              problem={problemAt("import") ?? running.problem ?? running.job?.problem ?? null}
              onPlanFile={(text) => {
                running.clear();
                return create("import", () => api.importPlan(text));
              }}
              job={running.running ? running.job : null}
              onConfig={addConfig}
              onFile={importFile}
              onCancel={running.cancel}
            />
            {imported && (
              <Alert mt="sm" color="teal" icon={<Icon name="check" />} role="status">
                The model is in the list of the form: choose a cluster and mesh, then create the
                plan.
              </Alert>
            )}
          </section>
        </div>
      </main>
    </div>
  );
}
