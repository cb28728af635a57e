import {
  ActionIcon,
  Autocomplete,
  Button,
  Select,
  Switch,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useState } from "react";
import { api } from "../../api/client";
import {
  type Field,
  fieldAt,
  hasOptions,
  OBJECTIVES,
  PLANNERS,
  standsStill,
} from "../../document/redistribution";
import { CaretError } from "../../ui/CaretError";
import { Icon } from "../../ui/icons";
import { ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import classes from "./Redistribution.module.css";
import type { Redistribution } from "./useRedistribution";

/** Mesh, tensor and the two layouts, as texts; what the server can't read is marked where it is typed. */
export function RedistributionForm({ form }: { form: Redistribution }) {
  const { fields, refused, busy, set, submit } = form;
  const [more, setMore] = useState(hasOptions(fields));
  const registry = useResource("registry", api.registry);
  const wrong = refused && fieldAt(refused.problem, refused.sent);
  const stands = refused !== null && standsStill(refused.problem, refused.sent, fields);
  const field = (name: Field, label: string) => ({
    label,
    value: fields[name],
    spellCheck: false,
    autoComplete: "off",
    maxLength: 500,
    "data-testid": `field:${name}`,
    classNames: { input: "mono" },
    error: stands && wrong === name ? <CaretError problem={refused.problem} /> : undefined,
  });
  return (
    <form
      className={classes["form"]}
      aria-label="Redistribution"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div className={classes["setting"]}>
        <TextInput
          {...field("mesh", "Mesh")}
          placeholder="dp:2,tp:4"
          onChange={(event) => set({ mesh: event.currentTarget.value })}
        />
        <TextInput
          {...field("shape", "Shape")}
          placeholder="4096x4096"
          onChange={(event) => set({ shape: event.currentTarget.value })}
        />
        <Autocomplete
          {...field("dtype", "Element type")}
          data={registry.data?.dtypes ?? []}
          size="xs"
          onChange={(dtype) => set({ dtype })}
        />
        <TextInput
          {...field("cluster", "Cluster")}
          placeholder="as many H100 as ranks"
          onChange={(event) => set({ cluster: event.currentTarget.value })}
        />
      </div>
      <div className={classes["ways"]}>
        <TextInput
          {...field("source", "From")}
          placeholder="[dp, tp]"
          onChange={(event) => set({ source: event.currentTarget.value })}
        />
        <Tooltip label="Swap the two layouts">
          <ActionIcon
            className={classes["swap"]}
            aria-label="Swap the two layouts"
            onClick={() => set({ source: fields.target, target: fields.source })}
          >
            <Icon name="swap" />
          </ActionIcon>
        </Tooltip>
        <TextInput
          {...field("target", "To")}
          placeholder="[tp, dp]"
          onChange={(event) => set({ target: event.currentTarget.value })}
        />
        <Button type="submit" loading={busy} className={classes["find"]}>
          Find the way
        </Button>
      </div>
      {stands && wrong === null && <ProblemNote problem={refused.problem} />}
      <p className={classes["hint"]}>
        Layouts as Shardwright, DTensor, JAX or MindSpore write them, such as{" "}
        <span className="mono">[dp, -] +tp</span>, <span className="mono">Shard(0), Partial()</span>{" "}
        or <span className="mono">P('dp', None)</span>.{" "}
        <button type="button" className="link" aria-expanded={more} onClick={() => setMore(!more)}>
          {more ? "Fewer options" : "More options"}
        </button>
      </p>
      {more && (
        <div className={classes["options"]}>
          <TextInput
            {...field("to_mesh", "To another mesh")}
            placeholder="the same"
            onChange={(event) => set({ to_mesh: event.currentTarget.value })}
          />
          <TextInput
            {...field("to_shape", "Reshaped to")}
            placeholder="the same"
            onChange={(event) => set({ to_shape: event.currentTarget.value })}
          />
          <Select
            label="Planner"
            data={PLANNERS}
            value={fields.planner}
            onChange={(planner) => planner && submit({ planner })}
          />
          <Select
            label="Looks for"
            data={OBJECTIVES}
            value={fields.objective}
            onChange={(objective) => objective && submit({ objective })}
          />
          <div className={classes["switches"]}>
            <Switch
              size="xs"
              label="direct exchange"
              checked={fields.exchange !== "no"}
              onChange={(event) => submit({ exchange: event.currentTarget.checked ? "yes" : "no" })}
            />
            <Switch
              size="xs"
              label="other ways"
              checked={fields.front === "yes"}
              onChange={(event) => submit({ front: event.currentTarget.checked ? "yes" : "no" })}
            />
          </div>
        </div>
      )}
    </form>
  );
}
