import { ActionIcon, Tabs } from "@mantine/core";
import { Icon } from "../../ui/icons";
import { usePlan } from "../../ui/PlanContext";
import { Code } from "./Code";
import { Communication } from "./Communication";
import { Costs } from "./Costs";
import { Diagnostics } from "./Diagnostics";
import { Prove } from "./Prove";
import classes from "./panels.module.css";

const TABS = ["communication", "costs", "code", "prove", "diagnostics"] as const;

/** The panel below the numbers; a tab that is shown again closes it. */
export function Panels({
  tab,
  height,
  dark,
  onTab,
}: {
  tab: string | null;
  height: number;
  dark: boolean;
  onTab(tab: string | null): void;
}) {
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
        <ActionIcon
          className={classes["fold"]}
          aria-label={tab ? "Close the panel" : "Open the panel"}
          aria-expanded={tab !== null}
          onClick={() => onTab(tab ? null : "communication")}
        >
          <Icon name={tab ? "chevronDown" : "chevronUp"} />
        </ActionIcon>
      </Tabs.List>
      {tab && (
        <div className={classes["content"]} style={{ height }}>
          <Tabs.Panel value="communication">
            <Communication dark={dark} />
          </Tabs.Panel>
          <Tabs.Panel value="costs">
            <Costs />
          </Tabs.Panel>
          <Tabs.Panel value="code">
            <Code />
          </Tabs.Panel>
          <Tabs.Panel value="prove">
            <Prove />
          </Tabs.Panel>
          <Tabs.Panel value="diagnostics">
            <Diagnostics />
          </Tabs.Panel>
        </div>
      )}
    </Tabs>
  );
}
