import { useMemo } from "react";
import type { CodeDiff, DiffRange, FileDiff } from "../../api/types";
import { countChanges, type DiffRow, hunkTitle, rowsOf } from "../../document/code";
import { highlight, type Token } from "../../ui/highlight";
import { Icon } from "../../ui/icons";
import { ScrollRegion } from "../../ui/ScrollRegion";
import classes from "./Code.module.css";
import { Tokens } from "./Tokens";

const SIGN = { same: " ", out: "−", in: "+" } as const;
const SAID = { same: "", out: "taken out: ", in: "put in: " } as const;

/** What edits changed in the files: every change with the lines around it. */
export function Diff({ diff }: { diff: CodeDiff }) {
  if (diff.files.length === 0) {
    return <p className={classes["none"]}>The code is the same as before.</p>;
  }
  return (
    <ScrollRegion label="Changes of the code" className={classes["diff"]}>
      {diff.files.map((file) => (
        <FileChange key={file.path} file={file} />
      ))}
    </ScrollRegion>
  );
}

function FileChange({ file }: { file: FileDiff }) {
  const [came, went] = countChanges(file.hunks);
  const before = useMemo(() => highlight(file.path, file.before ?? ""), [file]);
  const after = useMemo(() => highlight(file.path, file.after ?? ""), [file]);
  return (
    <details className={classes["change"]} open data-testid={`diff:${file.path}`}>
      <summary>
        <Icon name="chevronRight" size={13} />
        <span className="mono">{file.path}</span>
        {file.before === null && <span>new</span>}
        {file.after === null && <span>gone</span>}
        <span className={classes["came"]}>+{came}</span>
        <span className={classes["went"]}>−{went}</span>
      </summary>
      <table>
        <caption className="visually-hidden">Changes of {file.path}</caption>
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Line before</th>
            <th scope="col">Line after</th>
            <th scope="col">Text</th>
          </tr>
        </thead>
        {file.hunks.map((hunk, position) => (
          <Hunk key={position} hunk={hunk} before={before} after={after} />
        ))}
      </table>
    </details>
  );
}

function Hunk({
  hunk,
  before,
  after,
}: {
  hunk: readonly DiffRange[];
  before: readonly Token[][];
  after: readonly Token[][];
}) {
  return (
    <tbody>
      <tr className={classes["hunk"]}>
        <td colSpan={3}>{hunkTitle(hunk)}</td>
      </tr>
      {rowsOf(hunk).map((row, position) => (
        <tr key={position} data-change={row.change}>
          <td className={classes["at"]}>{numberOf(row.before)}</td>
          <td className={classes["at"]}>{numberOf(row.after)}</td>
          <td className={classes["row"]}>
            <span className={classes["sign"]} aria-hidden="true">
              {SIGN[row.change]}
            </span>
            <span className="visually-hidden">{SAID[row.change]}</span>
            <code>
              <Tokens line={textOf(row, before, after)} />
            </code>
          </td>
        </tr>
      ))}
    </tbody>
  );
}

function numberOf(line: number | null): string {
  return line === null ? "" : String(line + 1);
}

function textOf(row: DiffRow, before: readonly Token[][], after: readonly Token[][]): Token[] {
  return (row.after === null ? before[row.before ?? -1] : after[row.after]) ?? [];
}
