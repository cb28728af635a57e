import type { Badge, EdgeView, NodeView, PlanView } from "../api/types";
import { bucketName, sharedBuckets } from "../document/buckets";
import { formatBytes, formatInteger, formatSeconds } from "../document/units";
import { longKind, shortKind, textOn } from "../ui/colour";
import { useLook } from "../ui/LookContext";
import { useColours, useDocument, usePlan } from "../ui/PlanContext";
import { CodeButton } from "./CodeButton";
import classes from "./inspector.module.css";
import { useCurrentEdge } from "./useCurrentEdge";

/** Where the operator's tensors come from and go to, and what moves them. */
export function Traffic({ node }: { node: NodeView }) {
  const view = usePlan((state) => state.view);
  const incoming = view.edges.filter(
    (edge) => edge.kind !== "parameter" && edge.readers.includes(node.id),
  );
  const outgoing = view.edges.filter((edge) => edge.producer === node.id);
  return (
    <section className={classes["section"]} aria-labelledby="traffic">
      <h3 id="traffic" className="section-title">
        Readers and collectives
      </h3>
      {incoming.map((edge) => (
        <Edge
          key={`in ${edge.id}`}
          edge={edge}
          view={view}
          ends={[edge.producer]}
          title="from"
          node={node.id}
        />
      ))}
      {outgoing.map((edge) => (
        <Edge key={`out ${edge.id}`} edge={edge} view={view} ends={edge.readers} title="to" />
      ))}
    </section>
  );
}

function Edge({
  edge,
  view,
  ends,
  title,
  node,
}: {
  edge: EdgeView;
  view: PlanView;
  ends: readonly string[];
  title: string;
  /** Show only the collectives that are for this reader. */
  node?: string;
}) {
  const document = useDocument();
  const { current, row } = useCurrentEdge(edge.id);
  const label = (id: string) => view.nodes.find((other) => other.id === id)?.label;
  const badges = node ? edge.badges.filter((badge) => badge.readers.includes(node)) : edge.badges;
  return (
    <div
      ref={row}
      className={classes["edge"]}
      data-current={current}
      data-testid={`edge:${edge.id}`}
    >
      <p>
        <span className={classes["way"]}>{title}</span>{" "}
        {ends.map((id, position) => {
          const name = label(id);
          return (
            <span key={id}>
              {position > 0 && ", "}
              {name ? (
                <button type="button" className="link" onClick={() => document.select(id)}>
                  {name}
                </button>
              ) : (
                <span>{edge.label || "input"}</span>
              )}
            </span>
          );
        })}
        {edge.kind === "carry" && <span className={classes["way"]}> (layer to layer)</span>}
        {edge.badges.length > 0 && (
          <CodeButton part={{ kind: "edge", id: edge.id }} of={edge.label} />
        )}
      </p>
      {badges.length === 0 ? (
        <p className={classes["quiet"]}>stays as it is</p>
      ) : (
        <ul className={classes["badges"]}>
          {badges.map((badge, position) => (
            <li key={position}>
              <CollectiveBadge edge={edge} badge={badge} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A collective; clicked, the redistribution that it is a step of opens. */
export function CollectiveBadge({ edge, badge }: { edge: EdgeView; badge: Badge }) {
  const colours = useColours();
  const look = useLook();
  const view = usePlan((state) => state.plan.view);
  const fill = colours[badge.axes[0] ?? ""] ?? "#808a98";
  const shared = sharedBuckets(view.buckets, badge);
  const bucket = view.buckets[shared[0] ?? -1];
  const does = bucket ? "Show the gradients of this bucket" : "Step through this redistribution";
  return (
    <button
      type="button"
      className={`plain-button ${classes["badge"]}`}
      title={does}
      data-testid="badge"
      onClick={() =>
        bucket ? look.buckets(shared) : look.redistribution(edge.id, edge.badges.indexOf(badge))
      }
    >
      <span
        className={classes["badgeKind"]}
        style={{ background: fill, color: textOn(fill) }}
        title={`${longKind(badge.kind)} over ${badge.axes.join("·")}, ${badge.group_size} ranks`}
      >
        {shortKind(badge.kind)} {badge.axes.join("·")}
      </span>
      <span>{badge.phase}</span>
      {bucket ? (
        <span className={classes["right"]} data-testid="in-bucket">
          {shared.map((at) => `bucket ${bucketName(view.buckets, at)}`).join(", ")} ·{" "}
          {formatBytes(bucket.nbytes)}
        </span>
      ) : (
        <span className={classes["right"]}>
          {formatBytes(badge.payload_bytes)} · {formatSeconds(badge.seconds)} ×
          {formatInteger(badge.count)}
        </span>
      )}
      <span className={`mono ${classes["badgeLayouts"]}`}>
        {badge.source} → {badge.target}
      </span>
      <span className="visually-hidden">, {does.toLowerCase()}</span>
    </button>
  );
}
