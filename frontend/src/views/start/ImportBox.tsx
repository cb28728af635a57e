import { Button, FileButton, Textarea } from "@mantine/core";
import { type DragEvent, useState } from "react";
import type { Problem } from "../../api/types";
import { Icon } from "../../ui/icons";
import { ProblemNote } from "../../ui/states";
import classes from "./StartPage.module.css";

/** A plan file names its format; what else comes is taken for a config.json, and the server says if it is none. */
export function isPlanFile(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "format" in value;
  } catch {
    return false;
  }
}

export function ImportBox({
  busy,
  problem,
  onPlanFile,
  onConfig,
}: {
  busy: boolean;
  problem: Problem | null;
  onPlanFile(text: string): void;
  onConfig(name: string, text: string): void;
}) {
  const [over, setOver] = useState(false);
  const [text, setText] = useState("");

  function take(content: string, name: string) {
    if (isPlanFile(content)) onPlanFile(content);
    else onConfig(name, content);
  }
  async function read(file: File | null | undefined) {
    if (file) take(await file.text(), file.name.replace(/\.json$/, ""));
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
        Drop a <code>config.json</code> of a Llama, Mistral, Mixtral, Qwen2, Qwen3 or GPT-2 model
        here, or a plan file that was downloaded.
      </p>
      <FileButton accept="application/json,.json" onChange={read}>
        {(props) => (
          <Button {...props} variant="default" leftSection={<Icon name="upload" />}>
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
          disabled={text.trim() === ""}
          loading={busy}
          onClick={() => take(text, "pasted model")}
        >
          Import
        </Button>
      </div>
      {problem && <ProblemNote problem={problem} />}
    </div>
  );
}
