import {
  Fragment,
  type KeyboardEvent,
  type MouseEvent,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { CodeFile, CodeMark } from "../../api/types";
import { chosen, describeMark, isCurrent, marksIn, type Part } from "../../document/code";
import { bringIntoView } from "../../ui/bringIntoView";
import { highlight } from "../../ui/highlight";
import { useDocument, usePlan } from "../../ui/PlanContext";
import { ScrollRegion } from "../../ui/ScrollRegion";
import classes from "./Code.module.css";
import { Tokens } from "./Tokens";

/** Lines that the browser leaves out of its layout together while they are out of sight. */
const BLOCK = 100;
const LINE_PX = 18;

/** A file with its line numbers; lines that stand for a part of the plan select it, and are lit while it is selected. */
export function Source({
  file,
  marks,
  shown,
  place,
}: {
  file: CodeFile;
  marks: readonly CodeMark[];
  shown: Part | null;
  place: CodeMark | null;
}) {
  const document = useDocument();
  const view = usePlan((state) => state.plan.view);
  const selected = usePlan((state) => state.selected);
  const edge = usePlan((state) => state.edge);
  const text = useRef<HTMLPreElement>(null);
  const lines = useMemo(() => {
    const found = highlight(file.path, file.text);
    return file.text.endsWith("\n") ? found.slice(0, -1) : found;
  }, [file]);
  const starts = useMemo(() => marksIn(marks, file.path), [marks, file]);
  const owner = useMemo(() => ownersOf(starts), [starts]);
  // One stop of the Tab key for all marks; arrows go from one to the next.
  const [stop, setStop] = useState<number | null>(null);
  const first = starts.keys().next().value ?? 0;
  const lit = [...starts.values()].find((mark) => isCurrent(mark, { selected, edge }));

  const lineAt = (number: number) => text.current?.querySelector(`[data-line="${number}"]`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that it is asked for.
  useEffect(() => {
    if (place?.path !== file.path) return;
    bringIntoView(lineAt(place.first), true);
  }, [shown, place, file]);
  const litLine = lit?.first;
  // biome-ignore lint/correctness/useExhaustiveDependencies: follows the selection, not the text.
  useEffect(() => {
    if (litLine) bringIntoView(lineAt(litLine));
  }, [litLine]);

  function select(mark: CodeMark): void {
    const id = chosen(mark, { selected, edge });
    if (mark.edges.length > 0) document.selectEdge(id);
    else document.select(id);
  }

  function click(event: MouseEvent): void {
    // Who marks text to copy it does not mean to select anything else.
    if (!(event.target instanceof Element) || !window.getSelection()?.isCollapsed) return;
    const line = Number(event.target.closest("[data-line]")?.getAttribute("data-line") ?? 0);
    const mark = owner.get(line);
    if (!mark) return;
    setStop(mark.first);
    select(mark);
  }

  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !(event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    const all = [...starts.keys()];
    const next = all[all.indexOf(stop ?? first) + step];
    if (next === undefined) return;
    setStop(next);
    lineAt(next)?.querySelector("button")?.focus();
  }

  const blocks = Array.from({ length: Math.ceil(lines.length / BLOCK) }, (_, block) =>
    lines.slice(block * BLOCK, (block + 1) * BLOCK),
  );
  return (
    <ScrollRegion label={file.path} className={classes["source"]}>
      {/* A click anywhere on marked lines does what the button at the first of them does. */}
      <pre
        ref={text}
        data-testid="source"
        className={starts.size > 0 ? classes["marked"] : undefined}
        onClick={click}
        onKeyDown={press}
      >
        {blocks.map((block, index) => (
          <code
            key={index}
            className={classes["block"]}
            style={{ containIntrinsicHeight: `auto ${block.length * LINE_PX}px` }}
          >
            {block.map((line, offset) => {
              const number = index * BLOCK + offset + 1;
              const mark = owner.get(number);
              const start = starts.get(number);
              return (
                <Fragment key={number}>
                  <span
                    className={classes["line"]}
                    data-line={number}
                    data-mark={mark && (mark.edges.length > 0 ? "edge" : "node")}
                    data-current={mark !== undefined && isCurrent(mark, { selected, edge })}
                  >
                    {start && (
                      <button
                        type="button"
                        className={`plain-button ${classes["mark"]}`}
                        aria-label={`Line ${number}: select ${describeMark(start, view)}`}
                        aria-pressed={isCurrent(start, { selected, edge })}
                        title={`Select ${describeMark(start, view)} in the graph`}
                        tabIndex={number === (stop ?? first) ? 0 : -1}
                      />
                    )}
                    <Tokens line={line} />
                  </span>
                  {"\n"}
                </Fragment>
              );
            })}
          </code>
        ))}
      </pre>
    </ScrollRegion>
  );
}

/** Every line of a mark → the mark. */
function ownersOf(starts: ReadonlyMap<number, CodeMark>): Map<number, CodeMark> {
  const owners = new Map<number, CodeMark>();
  for (const mark of starts.values()) {
    for (let line = mark.first; line <= mark.last; line += 1) owners.set(line, mark);
  }
  return owners;
}
