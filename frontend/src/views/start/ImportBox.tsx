import { Button, FileButton, Progress, Textarea } from "@mantine/core";
import { type DragEvent, useState } from "react";
import type { Job, Problem } from "../../api/types";
import { Icon } from "../../ui/icons";
import { ProblemNote } from "../../ui/states";
import { kindOfText, LARGEST_FILE, LONGEST_TEXT, looksLikeText } from "./kind";
import classes from "./StartPage.module.css";

/** Takes plan files, configs and model files, and shows how far an import is. */
export function ImportBox({
  busy,
  problem,
  job,
  onPlanFile,
  onConfig,
  onFile,
  onCancel,
}: {
  busy: boolean;
  problem: Problem | null;
  /** The import that runs, if one does. */
  job: Job | null;
  onPlanFile(text: string): void;
  onConfig(name: string, text: string): void;
  onFile(name: string, file: Blob): void;
  onCancel(): void;
}) {
  const [over, setOver] = useState(false);
  const [text, setText] = useState("");
  const [large, setLarge] = useState("");

  function take(content: string, name: string) {
    const kind = kindOfText(content);
    if (kind === "plan") onPlanFile(content);
    else if (kind === "config") onConfig(name.replace(/\.json$/, ""), content);
    else onFile(name, new Blob([content]));
  }
  async function read(file: File | null | undefined) {
    if (!file) return;
    setLarge(file.size > LARGEST_FILE ? file.name : "");
    if (file.size > LARGEST_FILE) return;
    const start = new Uint8Array(await file.slice(0, 4096).arrayBuffer());
    if (looksLikeText(start) && file.size <= LONGEST_TEXT) take(await file.text(), file.name);
    else onFile(file.name, file);
  }
  function drop(event: DragEvent) {
    event.preventDefault();
    setOver(false);
    void read(event.dataTransfer.files[0]);
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is a shortcut; the buttons inside do the same.
    <div
      className={classes["drop"]}
      data-over={over}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <p className={classes["dropText"]}>
        Drop a <code>config.json</code> from Hugging Face, a <code>.pt2</code> of torch.export, an{" "}
        <code>.onnx</code> file, a graph or a plan file here. Nothing in it is run, and weights are
        not read.
      </p>
      <FileButton accept=".json,.pt2,.onnx" onChange={read}>
        {(props) => (
          <Button
            {...props}
            variant="default"
            disabled={job !== null}
            leftSection={<Icon name="upload" />}
          >
            Choose a file
          </Button>
        )}
      </FileButton>
      <Textarea
        label="Or paste it"
        placeholder='{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, …}'
        minRows={5}
        maxRows={12}
        autosize
        value={text}
        spellCheck={false}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <div className={classes["actions"]}>
        <Button
          disabled={text.trim() === "" || job !== null}
          loading={busy}
          onClick={() => take(text, "pasted model")}
        >
          Import
        </Button>
      </div>
      {job && (
        <div className={classes["progress"]}>
          <Progress
            value={job.progress * 100}
            aria-label="Progress of the import"
            transitionDuration={150}
          />
          <p role="status">{job.message || job.state}</p>
          <Button variant="default" leftSection={<Icon name="stop" size={12} />} onClick={onCancel}>
            Cancel
          </Button>
        </div>
      )}
      {large && (
        <p role="alert">
          {large} is larger than 64 MiB. Export the model from the meta device, so that the file has
          no weights, or open it with <code>shardwright trace</code>.
        </p>
      )}
      {problem && <ProblemNote problem={problem} />}
    </div>
  );
}
