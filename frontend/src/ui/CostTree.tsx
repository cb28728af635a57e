import { useState } from "react";
import type { CostItem } from "../api/types";
import { formatMemory, formatValue } from "../document/units";
import classes from "./CostTree.module.css";
import { Icon } from "./icons";

/** A number that opens down to the inputs of its formula. */
export function CostTree({
  items,
  total,
  open = 0,
  label,
  memory,
}: {
  items: readonly CostItem[];
  /** What shares are of; by default no shares are shown. */
  total?: number;
  /** Levels that are open at first. */
  open?: number;
  label: string;
  /** Its bytes are memory of a device, not of a tensor. */
  memory?: boolean;
}) {
  return (
    <ul className={classes["tree"]} aria-label={label}>
      {items.map((item, position) => (
        <Branch
          key={`${item.name}/${position}`}
          item={item}
          total={total}
          open={open}
          memory={memory === true}
        />
      ))}
    </ul>
  );
}

function Branch({
  item,
  total,
  open,
  memory,
}: {
  item: CostItem;
  total: number | undefined;
  open: number;
  memory: boolean;
}) {
  const [isOpen, setOpen] = useState(open > 0);
  const share = total && item.unit !== "" ? item.value / total : 0;
  const opens = item.children.length > 0 || item.formula !== "";
  return (
    <li>
      <button
        type="button"
        className={`plain-button ${classes["row"]}`}
        aria-expanded={opens ? isOpen : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        <span className={classes["mark"]}>
          {opens && <Icon name={isOpen ? "chevronDown" : "chevronRight"} size={12} />}
        </span>
        <span className={classes["name"]}>{item.name}</span>
        {total !== undefined && (
          <span className={classes["share"]} aria-hidden="true">
            <i style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
          </span>
        )}
        <span className={classes["value"]}>
          {memory && item.unit === "B"
            ? formatMemory(item.value)
            : formatValue(item.value, item.unit)}
        </span>
      </button>
      {isOpen && (
        <>
          {item.formula && <p className={classes["formula"]}>= {item.formula}</p>}
          {item.children.length > 0 && (
            <CostTree
              items={item.children}
              total={total}
              open={open - 1}
              label={item.name}
              memory={memory}
            />
          )}
        </>
      )}
    </li>
  );
}
