import { ActionIcon, Button, CopyButton, SegmentedControl, Select, Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";
import { api } from "../../api/client";
import type { CodeFile, CodeForm } from "../../api/types";
import { type Part, placeOf } from "../../document/code";
import { Icon } from "../../ui/icons";
import { usePlan } from "../../ui/PlanContext";
import { Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import classes from "./Code.module.css";
import { Diff } from "./Diff";
import { FileTree } from "./FileTree";
import { Source } from "./Source";

/**
 * The exported code: its files as the zip holds them, and what edits changed in them.
 *
 * `shown` is an operator or edge whose line is asked for; another object each time.
 */
export default function Code({ shown }: { shown: Part | null }) {
  const { id, version } = usePlan((state) => state.plan);
  const key = `${id}@${version}`;
  const [form, setForm] = useState("explicit");
  const [page, setPage] = useState<"files" | "changes">("files");
  const [back, setBack] = useState(1);
  const forms = useResource(key, () => api.forms(id));
  const refused = forms.data?.find(({ name }) => name === form)?.problem ?? null;

  useEffect(() => {
    if (shown) setPage("files");
  }, [shown]);

  return (
    <div className={classes["code"]}>
      <div className={classes["bar"]}>
        <SegmentedControl
          aria-label="What is shown of the code"
          value={page}
          onChange={(value) => setPage(value as "files" | "changes")}
          data={[
            { value: "files", label: "Files" },
            { value: "changes", label: "Changes" },
          ]}
        />
        <FormPicker forms={forms.data ?? []} form={form} onForm={setForm} />
        {page === "changes" && <StepPicker planKey={key} id={id} back={back} onBack={setBack} />}
        <span className={classes["gap"]} />
        {refused ? (
          <Button variant="default" disabled leftSection={<Icon name="download" size={13} />}>
            Download zip
          </Button>
        ) : (
          <Button
            component="a"
            href={api.zipAddress(id, form)}
            download
            variant="default"
            leftSection={<Icon name="download" size={13} />}
          >
            Download zip
          </Button>
        )}
      </div>
      {refused ? (
        <ProblemNote
          problem={refused}
          action={<p className={`mono ${classes["reason"]}`}>{refused.code}</p>}
        />
      ) : forms.loading && form !== "explicit" ? (
        // Whether the plan as it is now fits the form is not known yet.
        <Loading label="Writing the code" rows={8} />
      ) : page === "files" ? (
        <Files key={form} planKey={key} id={id} form={form} shown={shown} />
      ) : (
        <Changes key={form} planKey={key} id={id} form={form} back={back} />
      )}
    </div>
  );
}

/** Which form the code is written in; one that this plan does not fit says so before it is chosen. */
function FormPicker({
  forms,
  form,
  onForm,
}: {
  forms: readonly CodeForm[];
  form: string;
  onForm(form: string): void;
}) {
  if (forms.length < 2) return null;
  return (
    <SegmentedControl
      aria-label="Form of the code"
      value={form}
      onChange={onForm}
      data={forms.map(({ name, summary, problem }) => ({
        value: name,
        label: (
          <span
            className={classes["form"]}
            title={problem?.detail ?? summary}
            data-testid={`form:${name}`}
          >
            {name}
            {problem && <Icon name="warning" size={12} />}
            {problem && <span className="visually-hidden"> (this plan does not fit)</span>}
          </span>
        ),
      }))}
    />
  );
}

/** Since which edit changes are shown. */
function StepPicker({
  planKey,
  id,
  back,
  onBack,
}: {
  planKey: string;
  id: string;
  back: number;
  onBack(back: number): void;
}) {
  const history = useResource(planKey, () => api.history(id));
  const steps = history.data ?? [];
  const first = steps[0]?.back;
  useEffect(() => {
    // After an undo, the edit that was chosen may be gone.
    if (first !== undefined && back > steps.length) onBack(first);
  }, [steps, first, back, onBack]);
  if (steps.length === 0) return null;
  return (
    <Select
      aria-label="Changes since before"
      className={classes["since"]}
      value={String(back)}
      onChange={(value) => value && onBack(Number(value))}
      data={steps.map((step) => ({
        value: String(step.back),
        label: `since before: ${step.label}`,
      }))}
    />
  );
}

interface Asked {
  planKey: string;
  id: string;
  form: string;
}

function Files({ planKey, id, form, shown }: Asked & { shown: Part | null }) {
  const code = useResource(`${planKey} ${form}`, () => api.code(id, form));
  const [path, setPath] = useState("");
  const place = shown && code.data ? placeOf(code.data.marks, shown) : null;

  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that it is asked for, though the place is the same.
  useEffect(() => {
    if (place) setPath(place.path);
  }, [shown, place?.path]);

  if (code.problem) return <ProblemNote problem={code.problem} onRetry={code.reload} />;
  if (!code.data) return <Loading label="Writing the code" rows={8} />;
  const { files, marks } = code.data;
  const file = files.find((each) => each.path === path) ?? firstOf(files);
  return (
    <div className={classes["files"]}>
      <FileTree paths={files.map((each) => each.path)} shown={file?.path ?? ""} onShow={setPath} />
      {file && (
        <div className={classes["text"]}>
          <CopyFile file={file} />
          {shown && !place && (
            <p className={classes["missing"]} role="status">
              This form has no line of its own for that.
            </p>
          )}
          <Source key={file.path} file={file} marks={marks} shown={shown} place={place} />
        </div>
      )}
    </div>
  );
}

/** The model is what one wants to read. */
function firstOf(files: readonly CodeFile[]): CodeFile | undefined {
  return (
    files.find(({ path }) => path.endsWith("model.py")) ??
    files.find(({ path }) => path.endsWith(".py")) ??
    files[0]
  );
}

function CopyFile({ file }: { file: CodeFile }) {
  return (
    <CopyButton value={file.text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : "Copy the file"}>
          <ActionIcon
            className={classes["copy"]}
            variant="default"
            aria-label={copied ? "Copied" : `Copy ${file.path}`}
            onClick={copy}
          >
            <Icon name={copied ? "check" : "copy"} />
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

function Changes({ planKey, id, form, back }: Asked & { back: number }) {
  const undo = usePlan((state) => state.plan.undo);
  const asked = undo === null ? null : `${planKey} ${form} ${back}`;
  const diff = useResource(asked, () => api.codeDiff(id, form, back));
  if (undo === null) {
    return <p className={classes["none"]}>The plan was not edited yet: there is nothing before.</p>;
  }
  if (diff.problem) return <ProblemNote problem={diff.problem} onRetry={diff.reload} />;
  if (!diff.data || diff.loading) return <Loading label="Comparing the code" rows={8} />;
  return <Diff diff={diff.data} />;
}
