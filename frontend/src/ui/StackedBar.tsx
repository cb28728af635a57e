import classes from "./StackedBar.module.css";

export interface Part {
  name: string;
  value: number;
  text: string;
  colour: string;
}

/** Parts of a whole side by side; with a `limit`, the room up to it, or how far beyond it they go. */
export function StackedBar({
  label,
  parts,
  limit,
  full,
}: {
  label: string;
  parts: readonly Part[];
  limit?: number;
  /** Show every part in the legend, in order, not only the largest. */
  full?: boolean;
}) {
  const sum = parts.reduce((total, part) => total + part.value, 0);
  const scale = Math.max(sum, limit ?? 0) || 1;
  const over = limit !== undefined && sum > limit;
  const seen = parts.filter((part) => part.value > 0);
  const bySize = full ? seen : [...seen].sort((one, other) => other.value - one.value);
  const text = seen.map((part) => `${part.name} ${part.text}`).join(", ");
  return (
    <div className={classes["root"]}>
      <div className={classes["bar"]} role="img" aria-label={`${label}: ${text}`} data-over={over}>
        {seen.map((part) => (
          <span
            key={part.name}
            title={`${part.name} ${part.text}`}
            style={{ width: `${(part.value / scale) * 100}%`, background: part.colour }}
          />
        ))}
        {over && (
          <span
            className={classes["limit"]}
            style={{ left: `${(limit / scale) * 100}%` }}
            title="capacity"
          />
        )}
      </div>
      <div
        className={classes["legend"]}
        data-full={full === true}
        aria-hidden="true"
        title={full ? undefined : text}
      >
        {bySize.map((part) => (
          <span key={part.name}>
            <i style={{ background: part.colour }} />
            {part.name} {part.text}
          </span>
        ))}
      </div>
    </div>
  );
}
