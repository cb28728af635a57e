import type { NodeView, TensorView } from "../api/types";
import { formatBytes } from "../document/units";
import { Cells } from "../ui/Cells";
import { useColours, useDocument, usePlan } from "../ui/PlanContext";
import classes from "./inspector.module.css";
import { dimNames, SliceButton } from "./SliceButton";

/** Operands and results: their layouts as cells, local shapes and bytes. */
export function Tensors({ node }: { node: NodeView }) {
  return (
    <section className={classes["section"]} aria-labelledby="tensors">
      <h3 id="tensors" className="section-title">
        Tensors on one rank
      </h3>
      {node.operands.map((tensor, position) => (
        <Row key={`in ${position}`} node={node} tensor={tensor} />
      ))}
      {node.results.map((tensor, position) => (
        <Row key={`out ${position}`} node={node} tensor={tensor} result />
      ))}
    </section>
  );
}

function Row({ node, tensor, result }: { node: NodeView; tensor: TensorView; result?: boolean }) {
  const document = useDocument();
  const focused = usePlan((state) => state.factor);
  const colours = useColours();
  return (
    <div className={classes["tensor"]}>
      <div className={classes["tensorHead"]}>
        <strong>
          {result && "→ "}
          {tensor.slot}
        </strong>
        <span>{tensor.parameter ? "parameter" : tensor.dtype}</span>
        <span className={classes["right"]}>{formatBytes(tensor.local_bytes)}</span>
        <SliceButton
          of={{
            node: node.id,
            slot: tensor.slot,
            title: `${tensor.slot} of ${node.label}`,
            dims: dimNames(tensor),
            dtype: tensor.dtype,
          }}
        />
      </div>
      <Cells
        tensor={tensor}
        colours={colours}
        focused={focused}
        onFactor={(factor) => document.focusFactor(factor)}
      />
      <p className={`mono ${classes["layout"]}`}>{tensor.layout}</p>
    </div>
  );
}
