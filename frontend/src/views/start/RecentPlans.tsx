import { ActionIcon, Button, Menu, Modal, TextInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { api, problemOf } from "../../api/client";
import type { PlanSummary, Problem } from "../../api/types";
import { formatMemory, formatSeconds } from "../../document/units";
import { AxisChip } from "../../ui/AxisChip";
import { axisColours } from "../../ui/colour";
import { Icon } from "../../ui/icons";
import { follow, planPath } from "../../ui/route";
import { Empty, Loading, ProblemNote } from "../../ui/states";
import type { Resource } from "../../ui/useResource";
import classes from "./StartPage.module.css";

/** More push what stands below out of sight; the others are a button away. */
const SHOWN = 8;

type Ask = { what: "rename" | "delete"; plan: PlanSummary };

export function RecentPlans({ plans }: { plans: Resource<PlanSummary[]> }) {
  const [ask, setAsk] = useState<Ask | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [all, setAll] = useState(false);

  async function run(action: () => Promise<unknown>) {
    setProblem(null);
    try {
      await action();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setAsk(null);
    plans.reload();
  }

  if (plans.problem) return <ProblemNote problem={plans.problem} onRetry={plans.reload} />;
  if (!plans.data) return <Loading label="Loading plans" rows={SHOWN} />;
  const shown = all ? plans.data : plans.data.slice(0, SHOWN);
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      <div className={classes["tableWrap"]}>
        {plans.data.length === 0 ? (
          <Empty title="No plans yet">
            <p>Open an example above: the first plan is one click away.</p>
          </Empty>
        ) : (
          <table className={classes["table"]}>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Model</th>
                <th scope="col">Mesh</th>
                <th scope="col">Cluster</th>
                <th scope="col" className={classes["number"]}>
                  Step
                </th>
                <th scope="col" className={classes["number"]}>
                  Memory
                </th>
                <th scope="col">Edited</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((plan) => (
                <Row
                  key={plan.id}
                  plan={plan}
                  onAsk={setAsk}
                  onCopy={() => run(() => api.copy(plan.id))}
                />
              ))}
            </tbody>
          </table>
        )}
      </div>
      {shown.length < plans.data.length && (
        <Button variant="subtle" mt={6} onClick={() => setAll(true)}>
          Show all {plans.data.length} plans
        </Button>
      )}
      {ask && (
        <AskModal
          ask={ask}
          onClose={() => setAsk(null)}
          onRename={(name) => run(() => api.rename(ask.plan.id, name))}
          onDelete={() => run(() => api.remove(ask.plan.id))}
        />
      )}
    </>
  );
}

function Row({
  plan,
  onAsk,
  onCopy,
}: {
  plan: PlanSummary;
  onAsk(ask: Ask): void;
  onCopy(): void;
}) {
  const colours = axisColours(plan.mesh.map(([name]) => name));
  const over = plan.memory_bytes > plan.capacity_bytes;
  return (
    <tr data-testid={`plan:${plan.id}`}>
      <td>
        <a className="link" href={planPath(plan.id)} onClick={follow}>
          {plan.name}
        </a>
      </td>
      <td>{plan.model}</td>
      <td>
        <span className={classes["chips"]}>
          {plan.mesh.map(([name, size]) => (
            <AxisChip key={name} name={name} suffix={String(size)} colour={colours[name]} small />
          ))}
        </span>
      </td>
      <td>{plan.cluster}</td>
      <td className={classes["number"]}>{formatSeconds(plan.step_time_s)}</td>
      <td className={`${classes["number"]} ${over ? classes["over"] : ""}`}>
        {over && <span className="visually-hidden">over capacity: </span>}
        {formatMemory(plan.memory_bytes)}
      </td>
      <td title={plan.updated}>{ago(plan.updated)}</td>
      <td>
        <div className={classes["tools"]}>
          <Tooltip label="Copy">
            <ActionIcon aria-label={`Copy ${plan.name}`} onClick={onCopy}>
              <Icon name="copy" />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Download the plan file">
            <ActionIcon
              component="a"
              href={api.fileAddress(plan.id)}
              download
              aria-label={`Download ${plan.name}`}
            >
              <Icon name="download" />
            </ActionIcon>
          </Tooltip>
          <Menu>
            <Menu.Target>
              <ActionIcon aria-label={`More for ${plan.name}`}>
                <Icon name="chevronDown" />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item
                leftSection={<Icon name="edit" />}
                onClick={() => onAsk({ what: "rename", plan })}
              >
                Rename
              </Menu.Item>
              <Menu.Item
                leftSection={<Icon name="trash" />}
                onClick={() => onAsk({ what: "delete", plan })}
              >
                Delete
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </div>
      </td>
    </tr>
  );
}

function AskModal({
  ask,
  onClose,
  onRename,
  onDelete,
}: {
  ask: Ask;
  onClose(): void;
  onRename(name: string): void;
  onDelete(): void;
}) {
  const [name, setName] = useState(ask.plan.name);
  const title = ask.what === "rename" ? "Rename the plan" : "Delete the plan?";
  return (
    <Modal opened onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ask.what === "delete") onDelete();
          else if (name.trim()) onRename(name.trim());
        }}
      >
        {ask.what === "rename" ? (
          <TextInput
            label="Name"
            data-autofocus
            value={name}
            maxLength={200}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        ) : (
          <p>“{ask.plan.name}” and its history are deleted for good.</p>
        )}
        <div className={classes["tools"]} style={{ marginTop: 16, gap: 8 }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" color={ask.what === "delete" ? "red" : undefined}>
            {ask.what === "delete" ? "Delete" : "Rename"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

const SPANS: [number, string][] = [
  [86400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

function ago(iso: string): string {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  for (const [span, name] of SPANS) {
    const count = Math.floor(seconds / span);
    if (count >= 1) return `${count} ${name}${count > 1 ? "s" : ""} ago`;
  }
  return "just now";
}
