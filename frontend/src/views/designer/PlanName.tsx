import { TextInput } from "@mantine/core";
import { useState } from "react";
import { problemOf } from "../../api/client";
import { useDocument, usePlan } from "../../ui/PlanContext";
import classes from "./TopBar.module.css";

/** The plan's name; clicking it turns it into a field. */
export function PlanName() {
  const document = useDocument();
  const name = usePlan((state) => state.plan.name);
  const [draft, setDraft] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);

  async function save() {
    const wanted = draft?.trim() ?? "";
    if (wanted === "" || wanted === name) return setDraft(null);
    try {
      await document.rename(wanted);
      setDraft(null);
      setError(null);
    } catch (failure) {
      setError(problemOf(failure).detail);
    }
  }

  if (draft === null) {
    return (
      <button
        type="button"
        className={`plain-button ${classes["name"]}`}
        title={`${name} (click to rename)`}
        aria-label={`Plan ${name}: rename`}
        data-testid="plan-name"
        onClick={() => setDraft(name)}
      >
        {name}
      </button>
    );
  }
  return (
    <TextInput
      aria-label="Name of the plan"
      className={classes["nameField"]}
      autoFocus
      value={draft}
      error={error}
      maxLength={200}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onBlur={save}
      onKeyDown={(event) => {
        if (event.key === "Enter") void save();
        if (event.key === "Escape") setDraft(null);
      }}
    />
  );
}
