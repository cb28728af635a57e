import { ActionIcon, Button, CopyButton, Tooltip } from "@mantine/core";
import { useMemo, useState } from "react";
import { api } from "../../api/client";
import type { CodeFile } from "../../api/types";
import { highlight } from "../../ui/highlight";
import { Icon } from "../../ui/icons";
import { usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import { Loading, ProblemNote } from "../../ui/states";
import { useResource } from "../../ui/useResource";
import classes from "./panels.module.css";

/** The exported files, as the zip holds them. */
export default function Code() {
  const { id, version } = usePlan((state) => state.plan);
  const code = useResource(`${id}@${version}`, () => api.code(id));
  const [path, setPath] = useState("");

  if (code.problem) return <ProblemNote problem={code.problem} onRetry={code.reload} />;
  if (!code.data) return <Loading label="Writing the code" rows={8} />;
  const files = code.data.files;
  const shown =
    files.find((file) => file.path === path) ??
    files.find((file) => file.path.endsWith("model.py")) ??
    files.find((file) => file.path.endsWith(".py")) ??
    files[0];
  return (
    <div className={classes["code"]}>
      <nav className={classes["files"]} aria-label="Exported files">
        <Button
          component="a"
          href={api.zipAddress(id)}
          download
          variant="default"
          fullWidth
          leftSection={<Icon name="download" size={13} />}
        >
          Download zip
        </Button>
        <FileList files={files} shown={shown?.path ?? ""} onShow={setPath} />
      </nav>
      {shown && <FileText file={shown} />}
    </div>
  );
}

function FileList({
  files,
  shown,
  onShow,
}: {
  files: readonly CodeFile[];
  shown: string;
  onShow(path: string): void;
}) {
  const folders = new Map<string, CodeFile[]>();
  for (const file of files) {
    const folder = file.path.includes("/") ? file.path.slice(0, file.path.lastIndexOf("/")) : "";
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  return (
    <ul className={classes["fileList"]}>
      {[...folders].map(([folder, inside]) => (
        <li key={folder}>
          {folder && (
            <span className={classes["folder"]}>
              <Icon name="folder" size={13} /> {folder}
            </span>
          )}
          <ul>
            {inside.map((file) => (
              <li key={file.path}>
                <button
                  type="button"
                  className={`plain-button ${classes["file"]}`}
                  aria-current={file.path === shown}
                  data-testid={`file:${file.path}`}
                  onClick={() => onShow(file.path)}
                >
                  <Icon name="file" size={13} />
                  {file.path.slice(folder.length + (folder ? 1 : 0))}
                </button>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}

function FileText({ file }: { file: CodeFile }) {
  const tokens = useMemo(() => highlight(file.path, file.text), [file]);
  const lines = file.text.split("\n").length;
  return (
    <div className={classes["text"]}>
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
      <ScrollRegion label={file.path} className={classes["source"]}>
        <pre aria-hidden="true" className={classes["lines"]}>
          {Array.from({ length: lines }, (_, line) => line + 1).join("\n")}
        </pre>
        <pre data-testid="source">
          <code>
            {tokens.map(({ kind, text }, position) =>
              kind === "plain" ? (
                text
              ) : (
                <span key={position} className={classes[kind]}>
                  {text}
                </span>
              ),
            )}
          </code>
        </pre>
      </ScrollRegion>
    </div>
  );
}
