import { ActionIcon, Button, NumberInput, Select, TextInput } from "@mantine/core";
import type { DeviceEntry, MeshAxis } from "../../api/types";
import { type ClusterParts, deviceCount, meshFault, product } from "../../document/mesh";
import { formatInteger, formatMemory } from "../../document/units";
import { axisColours } from "../../ui/colour";
import { Icon } from "../../ui/icons";
import classes from "./MeshFields.module.css";

const NAMES = ["dp", "tp", "cp", "ep", "pp"];

const whole = (value: number | string) => (typeof value === "number" ? Math.trunc(value) : 0);

/** Cluster and mesh, which have to agree; says at once whether they do. */
export function MeshFields({
  cluster,
  axes,
  devices,
  onCluster,
  onAxes,
}: {
  cluster: ClusterParts;
  axes: readonly MeshAxis[];
  devices: readonly DeviceEntry[];
  onCluster(cluster: ClusterParts): void;
  onAxes(axes: MeshAxis[]): void;
}) {
  const fault = meshFault(axes, cluster);
  const device = devices.find((candidate) => candidate.name === cluster.device);
  const colours = axisColours(axes.map((axis) => axis.name));
  const change = (position: number, part: Partial<MeshAxis>) =>
    onAxes(axes.map((axis, at) => (at === position ? { ...axis, ...part } : axis)));
  const move = (position: number) => {
    const moved = [...axes];
    moved.splice(position - 1, 0, ...moved.splice(position, 1));
    onAxes(moved);
  };
  const free = NAMES.find((name) => axes.every((axis) => axis.name !== name)) ?? `a${axes.length}`;

  return (
    <div className={classes["root"]}>
      <fieldset className={classes["cluster"]}>
        <legend>Cluster</legend>
        <NumberInput
          label="Nodes"
          min={1}
          max={999999}
          allowDecimal={false}
          value={cluster.nodes}
          onChange={(value) => onCluster({ ...cluster, nodes: whole(value) })}
        />
        <span aria-hidden="true">×</span>
        <NumberInput
          label="Devices per node"
          min={1}
          max={device?.node_devices ?? 8}
          allowDecimal={false}
          value={cluster.perNode}
          onChange={(value) => onCluster({ ...cluster, perNode: whole(value) })}
        />
        <Select
          label="Device"
          className={classes["device"]}
          data={devices.map(({ name, memory_bytes }) => ({
            value: name,
            label: `${name} · ${formatMemory(memory_bytes)}`,
          }))}
          value={cluster.device}
          onChange={(value) => value && onCluster({ ...cluster, device: value })}
        />
      </fieldset>
      <fieldset className={classes["mesh"]}>
        <legend>Mesh, neighbouring ranks last</legend>
        {axes.map((axis, position) => (
          <div key={position} className={classes["axis"]}>
            <i style={{ background: colours[axis.name] }} />
            <TextInput
              aria-label={`Name of axis ${position + 1}`}
              value={axis.name}
              maxLength={20}
              onChange={(event) => change(position, { name: event.currentTarget.value.trim() })}
            />
            <NumberInput
              aria-label={`Size of axis ${axis.name || position + 1}`}
              min={1}
              allowDecimal={false}
              value={axis.size}
              onChange={(value) => change(position, { size: whole(value) })}
            />
            <ActionIcon
              aria-label={`Move ${axis.name} outwards`}
              disabled={position === 0}
              onClick={() => move(position)}
            >
              <Icon name="chevronUp" />
            </ActionIcon>
            <ActionIcon
              aria-label={`Remove ${axis.name}`}
              disabled={axes.length === 1}
              onClick={() => onAxes(axes.filter((_, at) => at !== position))}
            >
              <Icon name="close" />
            </ActionIcon>
          </div>
        ))}
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={12} />}
          disabled={axes.length >= 8}
          onClick={() => onAxes([...axes, { name: free, size: 1 }])}
        >
          Add axis
        </Button>
      </fieldset>
      <p className={classes["verdict"]} data-fits={fault === null} role="status">
        <Icon name={fault === null ? "check" : "warning"} size={14} />
        {fault ??
          `${product(axes)} = ${formatInteger(deviceCount(cluster))} ranks, one on each device.`}
      </p>
    </div>
  );
}
