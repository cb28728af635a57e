import { TextInput } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type Ref, useEffect, useMemo, useRef, useState } from "react";
import {
  axesOf,
  pathTo,
  type Tree,
  type TreeItem,
  treeMove,
  visibleRows,
} from "../../document/tree";
import { AxisChip } from "../../ui/AxisChip";
import { Icon } from "../../ui/icons";
import { useColours, useDocument, usePlan } from "../../ui/PlanContext";
import classes from "./Outline.module.css";

const ROW = 24;

/** The plan as a tree: the same content and selection as the canvas, for the keyboard and for screen readers. */
export function Outline({
  tree,
  open,
  onToggle,
  onReveal,
  filterRef,
}: {
  tree: Tree;
  open: ReadonlySet<string>;
  onToggle(id: string): void;
  /** Open the groups around a row. */
  onReveal(id: string): void;
  filterRef: Ref<HTMLInputElement>;
}) {
  const document = useDocument();
  const selected = usePlan((state) => state.selected);
  const marked = usePlan((state) => state.marked);
  const colours = useColours();
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => visibleRows(tree, open, filter), [tree, open, filter]);
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    getItemKey: (index) => rows[index] ?? index,
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new selection opens its groups again.
  useEffect(() => {
    if (
      selected &&
      pathTo(tree, selected)
        .slice(0, -1)
        .some((id) => !open.has(id))
    ) {
      onReveal(selected);
    }
  }, [selected]);
  // Once for each selection: an edit makes new rows, and must not take back where somebody scrolled to.
  const scrolledTo = useRef<string | null>(null);
  useEffect(() => {
    if (selected === scrolledTo.current) return;
    const index = selected ? rows.indexOf(selected) : -1;
    if (index >= 0) virtual.scrollToIndex(index);
    if (index >= 0 || selected === null) scrolledTo.current = selected;
  }, [selected, rows, virtual]);

  const focusable = selected && rows.includes(selected) ? selected : rows[0];

  const isOpen = (id: string) => open.has(id) || filter !== "";

  /** Put an operator to those that are selected, or take it out. */
  function markAlso(id: string, out = true) {
    const now = marked.length > 0 ? marked : selected ? [selected] : [];
    const operators = now.filter((other) => tree.items.get(other)?.kind === "op");
    if (!operators.includes(id)) document.mark([...operators, id]);
    else if (out) document.mark(operators.filter((other) => other !== id));
  }

  /** Shift and an arrow take the next operator along. */
  function extend(from: string, by: 1 | -1) {
    const operators = rows.filter((id) => tree.items.get(id)?.kind === "op");
    const next = operators[operators.indexOf(from) + by];
    if (next === undefined) return;
    markAlso(next, false);
    focusRow(next);
  }

  function key(event: KeyboardEvent) {
    if (event.shiftKey && /^Arrow(Up|Down)$/.test(event.key)) {
      const from = (event.target as HTMLElement).dataset["id"];
      event.preventDefault();
      event.stopPropagation();
      if (from) extend(from, event.key === "ArrowDown" ? 1 : -1);
      return;
    }
    const move = focusable && treeMove(tree, rows, isOpen, focusable, event.key);
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    if (move.toggle && filter === "") onToggle(move.toggle);
    if (move.select) {
      document.select(move.select);
      focusRow(move.select);
    }
  }

  function focusRow(id: string) {
    virtual.scrollToIndex(rows.indexOf(id));
    // The row may only be drawn after the scroll.
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`)?.focus(),
    );
  }

  return (
    <nav className={classes["outline"]} aria-label="Outline">
      <div className={classes["filter"]}>
        <TextInput
          ref={filterRef}
          type="search"
          aria-label="Filter operators by name, kind or axis"
          placeholder="Filter: name, kind, axis"
          leftSection={<Icon name="search" size={13} />}
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setFilter("");
            if (event.key === "ArrowDown" && focusable) {
              event.preventDefault();
              focusRow(focusable);
            }
          }}
        />
      </div>
      {rows.length === 0 && <p className={classes["none"]}>No operator matches “{filter}”.</p>}
      <div ref={scroller} className={classes["scroller"]}>
        <div
          role="tree"
          aria-label="Operators"
          aria-multiselectable
          style={{ height: virtual.getTotalSize(), position: "relative" }}
          onKeyDown={key}
        >
          {virtual.getVirtualItems().map(({ index, start }) => {
            const item = tree.items.get(rows[index] ?? "");
            return (
              item && (
                <Row
                  key={item.id}
                  item={item}
                  top={start}
                  colours={colours}
                  selected={item.id === selected || marked.includes(item.id)}
                  open={isOpen(item.id)}
                  focusable={item.id === focusable}
                  onSelect={(also) =>
                    also && item.kind === "op" ? markAlso(item.id) : document.select(item.id)
                  }
                  onToggle={() => onToggle(item.id)}
                />
              )
            );
          })}
        </div>
      </div>
    </nav>
  );
}

function Row({
  item,
  top,
  colours,
  selected,
  open,
  focusable,
  onSelect,
  onToggle,
}: {
  item: TreeItem;
  top: number;
  colours: Record<string, string>;
  selected: boolean;
  open: boolean;
  focusable: boolean;
  /** Selected alone, or along with what is. */
  onSelect(also: boolean): void;
  onToggle(): void;
}) {
  const group = item.kind === "group";
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree around it handles the keys.
    <div
      role="treeitem"
      tabIndex={focusable ? 0 : -1}
      aria-level={item.depth + 1}
      aria-selected={selected}
      aria-expanded={group ? open : undefined}
      data-testid={`${item.kind}:${item.id}`}
      data-id={item.id}
      className={classes["row"]}
      style={{ transform: `translateY(${top}px)`, paddingLeft: 8 + item.depth * 13 }}
      onClick={(event) => onSelect(event.shiftKey || event.ctrlKey || event.metaKey)}
      onDoubleClick={group ? onToggle : undefined}
    >
      <span
        className={classes["mark"]}
        aria-hidden="true"
        onClick={
          group
            ? (event) => {
                event.stopPropagation();
                onToggle();
              }
            : undefined
        }
      >
        {group && <Icon name={open ? "chevronDown" : "chevronRight"} size={11} />}
      </span>
      <span className={classes["label"]} data-group={group}>
        {item.label}
      </span>
      {item.times > 1 && <span className={classes["times"]}>×{item.times}</span>}
      <span className={classes["axes"]}>
        {item.node &&
          axesOf(item.node).map((axis) => (
            <AxisChip key={axis} name={axis} colour={colours[axis]} small />
          ))}
      </span>
    </div>
  );
}
