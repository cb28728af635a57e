// What a screen shows when it has nothing to show: loading, empty, failed.
import { Button, Skeleton } from "@mantine/core";
import type { ReactNode } from "react";
import type { Problem } from "../api/types";
import { Icon } from "./icons";
import classes from "./states.module.css";

export function Loading({ label, rows = 4 }: { label: string; rows?: number }) {
  return (
    <div className={classes["loading"]} role="status" aria-label={label}>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={14} width={`${90 - ((row * 23) % 50)}%`} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={classes["empty"]}>
      <p className={classes["emptyTitle"]}>{title}</p>
      {children}
    </div>
  );
}

/** A problem document: what, and the remedy. */
export function ProblemNote({
  problem,
  onRetry,
  action,
}: {
  problem: Problem;
  onRetry?(): void;
  action?: ReactNode;
}) {
  return (
    <div className={classes["problem"]} role="alert" data-code={problem.code}>
      <Icon name="error" />
      <div>
        <p>{problem.detail}</p>
        {problem.hint && <p className={classes["hint"]}>{problem.hint}</p>}
        {onRetry && (
          <Button variant="default" mt={6} onClick={onRetry}>
            Try again
          </Button>
        )}
        {action}
      </div>
    </div>
  );
}
