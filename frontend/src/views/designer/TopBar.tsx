import { ActionIcon, Button, Kbd, Menu, Tooltip } from "@mantine/core";
import { api } from "../../api/client";
import {
  applyPreset,
  clearAll,
  presetLabel,
  presetPlaces,
  presetTitle,
} from "../../commands/edits";
import { deviceCount, parseCluster } from "../../document/mesh";
import { AxisChip } from "../../ui/AxisChip";
import { Icon } from "../../ui/icons";
import { useColours, useDocument, usePlan, useRegistry } from "../../ui/PlanContext";
import { follow, START } from "../../ui/route";
import { Brand } from "../Brand";
import { PlanName } from "./PlanName";
import classes from "./TopBar.module.css";

export function TopBar({
  dark,
  onTheme,
  onFind,
  onSettings,
  onRedistribution,
  onCode,
  onDownload,
  onPicture,
}: {
  dark: boolean;
  onTheme(): void;
  onFind(): void;
  onSettings(): void;
  onRedistribution(): void;
  onCode(): void;
  onDownload(): void;
  onPicture(kind: "png" | "svg"): void;
}) {
  const document = useDocument();
  const plan = usePlan((state) => state.plan);
  const pending = usePlan((state) => state.pending);
  const colours = useColours();
  const cluster = parseCluster(plan.cluster);
  const mesh = plan.view.mesh;

  return (
    <header className={classes["bar"]}>
      <a
        href={START}
        onClick={follow}
        className={classes["home"]}
        aria-label="Shardwright, start page"
      >
        <Brand />
      </a>
      <PlanName />
      <span className={classes["model"]}>{plan.model.name}</span>
      <Tooltip label="Mesh, cluster and batch">
        <button
          type="button"
          className={`plain-button ${classes["mesh"]}`}
          data-testid="mesh"
          onClick={onSettings}
        >
          <span className="visually-hidden">Mesh: </span>
          {mesh.map(([name, size]) => (
            <AxisChip key={name} name={name} suffix={String(size)} colour={colours[name]} />
          ))}
          <span className={classes["cluster"]}>
            = {deviceCount(cluster).toLocaleString("en-US")} × {cluster.device}
          </span>
        </button>
      </Tooltip>
      <span className={classes["gap"]} />
      <Tooltip label={plan.undo ? `Undo: ${plan.undo}` : "Nothing to undo"}>
        <ActionIcon
          aria-label={plan.undo ? `Undo: ${plan.undo}` : "Undo"}
          aria-disabled={!plan.undo && !pending}
          data-testid="undo"
          onClick={() => (plan.undo || pending) && document.undo()}
        >
          <Icon name="undo" />
        </ActionIcon>
      </Tooltip>
      <Tooltip label={plan.redo ? `Redo: ${plan.redo}` : "Nothing to redo"}>
        <ActionIcon
          aria-label={plan.redo ? `Redo: ${plan.redo}` : "Redo"}
          aria-disabled={!plan.redo}
          data-testid="redo"
          onClick={() => plan.redo && document.redo()}
        >
          <Icon name="redo" />
        </ActionIcon>
      </Tooltip>
      <Button
        variant="default"
        className={classes["find"]}
        leftSection={<Icon name="search" size={13} />}
        rightSection={<Kbd size="xs">Ctrl K</Kbd>}
        onClick={onFind}
      >
        Find
      </Button>
      <Tooltip label="From one layout to another, step by step">
        <ActionIcon
          aria-label="From one layout to another"
          data-testid="redistribute"
          onClick={onRedistribution}
        >
          <Icon name="swap" />
        </ActionIcon>
      </Tooltip>
      <PresetsMenu />
      <Menu>
        <Menu.Target>
          <Button leftSection={<Icon name="download" size={13} />}>Export</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={onDownload}>Code as a zip</Menu.Item>
          <Menu.Item onClick={onCode}>Look at the code</Menu.Item>
          <Menu.Item component="a" href={api.fileAddress(plan.id)} download>
            Plan file
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item onClick={() => onPicture("svg")}>Graph as SVG</Menu.Item>
          <Menu.Item onClick={() => onPicture("png")}>Graph as PNG</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Tooltip label={dark ? "Light theme" : "Dark theme"}>
        <ActionIcon aria-label={dark ? "Light theme" : "Dark theme"} onClick={onTheme}>
          <Icon name={dark ? "sun" : "moon"} />
        </ActionIcon>
      </Tooltip>
    </header>
  );
}

function PresetsMenu() {
  const document = useDocument();
  const { presets } = useRegistry();
  const mesh = usePlan((state) => state.plan.view.mesh);
  const colours = useColours();
  return (
    <Menu width={360}>
      <Menu.Target>
        <Button variant="default" leftSection={<Icon name="magic" size={13} />}>
          Presets
        </Button>
      </Menu.Target>
      <Menu.Dropdown className={classes["presets"]}>
        {presets.map((preset) => (
          <div key={preset.name}>
            <Menu.Label>
              {presetTitle(preset.name)}
              <span className={classes["summary"]}>{preset.summary}</span>
            </Menu.Label>
            <div className={classes["axes"]}>
              {presetPlaces(
                preset,
                mesh.map(([axis]) => axis),
              ).map((axis) => (
                <Menu.Item
                  key={axis}
                  aria-label={presetLabel(preset, axis)}
                  className={classes["axis"]}
                  onClick={() => document.edit(applyPreset(preset, axis))}
                >
                  {axis === null ? "apply" : <AxisChip name={axis} colour={colours[axis]} />}
                </Menu.Item>
              ))}
            </div>
          </div>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<Icon name="trash" />} onClick={() => document.edit(clearAll())}>
          Clear all decisions
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
