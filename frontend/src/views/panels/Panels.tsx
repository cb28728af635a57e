import { ActionIcon, Tabs } from "@mantine/core";
import { lazy, Suspense } from "react";
import type { Part } from "../../document/code";
import { Icon } from "../../ui/icons";
import { usePlan } from "../../ui/PlanContext";
import { Loading } from "../../ui/states";
import classes from "./panels.module.css";
import { useProof } from "./useProof";

const Code = lazy(() => import("../code/Code"));
const Communication = lazy(() => import("./Communication"));
const Costs = lazy(() => import("./Costs"));
const Diagnostics = lazy(() => import("./Diagnostics"));
const Prove = lazy(() => import("./Prove"));
const Stages = lazy(() => import("./Stages"));

const TABS = ["communication", "costs", "pipeline", "code", "prove", "diagnostics"] as const;

/** The panel below the numbers; a tab that is shown again closes it. */
export function Panels({
  tab,
  height,
  dark,
  shown,
  onTab,
}: {
  tab: string | null;
  height: number;
  dark: boolean;
  /** What is to be shown in the code. */
  shown: Part | null;
  onTab(tab: string | null): void;
}) {
  // Here and not in its tab, so that a proof goes on when another tab is looked at.
  const proof = useProof(usePlan((state) => state.plan.id));
  const findings = usePlan((state) => state.plan.summary.diagnostics);
  const worst = findings.some(({ severity }) => severity !== "note");
  return (
    <Tabs
      value={tab}
      onChange={onTab}
      allowTabDeactivation
      keepMounted={false}
      className={classes["panels"]}
      aria-label="Details of the plan"
    >
      <div className={classes["head"]}>
        <Tabs.List className={classes["tabs"]}>
          {TABS.map((name) => (
            <Tabs.Tab key={name} value={name} className={classes["tab"]}>
              {name}
              {name === "diagnostics" && findings.length > 0 && (
                <span className={classes["count"]} data-worst={worst}>
                  {findings.length}
                </span>
              )}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <ActionIcon
          className={classes["fold"]}
          aria-label={tab ? "Close the panel" : "Open the panel"}
          aria-expanded={tab !== null}
          onClick={() => onTab(tab ? null : "communication")}
        >
          <Icon name={tab ? "chevronDown" : "chevronUp"} />
        </ActionIcon>
      </div>
      {tab && (
        <div className={classes["content"]} style={{ height }}>
          <Suspense fallback={<Loading label="Loading the panel" />}>
            <Tabs.Panel value="communication">
              <Communication dark={dark} />
            </Tabs.Panel>
            <Tabs.Panel value="costs">
              <Costs />
            </Tabs.Panel>
            <Tabs.Panel value="pipeline">
              <Stages dark={dark} />
            </Tabs.Panel>
            <Tabs.Panel value="code">
              <Code shown={shown} />
            </Tabs.Panel>
            <Tabs.Panel value="prove">
              <Prove proof={proof} />
            </Tabs.Panel>
            <Tabs.Panel value="diagnostics">
              <Diagnostics />
            </Tabs.Panel>
          </Suspense>
        </div>
      )}
    </Tabs>
  );
}
