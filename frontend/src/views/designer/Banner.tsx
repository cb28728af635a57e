import { Button } from "@mantine/core";
import { useState } from "react";
import { problemOf } from "../../api/client";
import type { Problem } from "../../api/types";
import type { Step } from "../../document/planDocument";
import { Icon } from "../../ui/icons";
import { useDocument, usePlan } from "../../ui/PlanContext";
import classes from "./Banner.module.css";

/** What stands between this tab and the server: another tab's version, a server that is away, a refused edit. */
export function Banner({ onOpen }: { onOpen(id: string): void }) {
  const document = useDocument();
  const conflict = usePlan((state) => state.conflict);
  const offline = usePlan((state) => state.offline);
  const leftover = usePlan((state) => state.leftover);
  const refusal = usePlan((state) => state.refusal);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);

  async function run(action: () => Promise<void>) {
    setBusy(true);
    setProblem(null);
    try {
      await action();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  }

  if (conflict) {
    return (
      <div className={classes["banner"]} data-kind="warning" role="alert" data-testid="conflict">
        <Icon name="warning" />
        <p>
          <strong>This plan was changed elsewhere</strong>
          {conflict.version !== null && ` (it is at version ${conflict.version} now)`}.{" "}
          {conflict.unsent.length > 0 && <>Not saved: {labels(conflict.unsent)}. </>}
          {problem?.detail}
        </p>
        <Button variant="default" loading={busy} onClick={() => run(() => document.reload())}>
          Reload
        </Button>
        <Button loading={busy} onClick={() => run(async () => onOpen(await document.keepAsCopy()))}>
          Keep mine as a copy
        </Button>
      </div>
    );
  }
  if (offline) {
    return (
      <div className={classes["banner"]} data-kind="warning" role="alert" data-testid="offline">
        <Icon name="warning" />
        <p>
          <strong>{offline.detail}</strong> {offline.hint} What you changed is kept here until then.
        </p>
        <Button onClick={document.retry}>Try again</Button>
      </div>
    );
  }
  if (leftover.length > 0) {
    return (
      <div className={classes["banner"]} data-kind="note" role="status" data-testid="leftover">
        <Icon name="note" />
        <p>Reloaded. Not made: {labels(leftover)}.</p>
        <Button variant="default" onClick={() => document.dismiss("leftover")}>
          Leave it
        </Button>
        <Button onClick={document.applyLeftover}>Make it again</Button>
      </div>
    );
  }
  // Refusals of a factor or a form are shown there; these have no field on screen.
  if (refusal && ["history", "preset"].includes(refusal.field)) {
    return (
      <div className={classes["banner"]} data-kind="error" role="alert" data-testid="refusal">
        <Icon name="error" />
        <p>
          <strong>Not made: {refusal.label}.</strong> {refusal.problem.detail}{" "}
          {refusal.problem.hint}
        </p>
        <Button variant="default" onClick={() => document.dismiss("refusal")}>
          Dismiss
        </Button>
      </div>
    );
  }
  return null;
}

function labels(steps: readonly Step[]): string {
  return steps.map((step) => `“${step.label}”`).join(", ");
}
