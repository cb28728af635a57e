/**
 * What the canvas draws: boxes, groups and tensors by index, made from the API's view by `fromPlanView`.
 *
 * The types of the view are structural and name only the fields that are drawn, so that this folder stands apart from
 * the generated client; the API's types fit them.
 */

export interface CellView {
  readonly factors: readonly string[];
  readonly size: string;
  readonly total: number;
  readonly local: number;
  readonly axes: readonly string[];
}

export interface TensorView {
  readonly slot: string;
  readonly value: string;
  readonly layout: string;
  readonly cells: readonly CellView[];
  readonly partial: readonly string[];
  readonly reduce: string;
  readonly parameter: boolean;
}

export interface NodeView {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly op: string;
  readonly group: string;
  readonly scope: string;
  readonly layers: number;
  readonly recomputed?: boolean;
  readonly operands: readonly TensorView[];
  readonly results: readonly TensorView[];
}

export interface BadgeView {
  readonly phase: string;
  readonly kind: string;
  readonly axes: readonly string[];
  readonly group_size: number;
  readonly payload_bytes: number;
  readonly wire_bytes: number;
  readonly seconds: number;
  readonly count: number;
  readonly source: string;
  readonly target: string;
  readonly readers: readonly string[];
  /** Positions of the buckets that do this for other gradients as well. */
  readonly buckets?: readonly number[];
}

/** Gradients that share their collectives. */
export interface BucketView {
  readonly gradients: number;
  readonly count: number;
  readonly nbytes: number;
  readonly seconds: number;
  readonly collectives: number;
  readonly runs: number;
}

export interface EdgeView {
  readonly id: string;
  readonly value: string;
  readonly label: string;
  readonly kind: string;
  readonly producer: string;
  readonly readers: readonly string[];
  readonly tensor: TensorView;
  readonly badges: readonly BadgeView[];
  readonly place?: string;
}

export interface GroupView {
  readonly id: string;
  readonly path: string;
  readonly label: string;
  readonly class_name: string;
  readonly parent: string;
  readonly layers: number;
  readonly start?: number;
  readonly total?: number;
  readonly step?: number;
}

export interface PlanView {
  readonly model: string;
  readonly groups: readonly GroupView[];
  readonly nodes: readonly NodeView[];
  readonly edges: readonly EdgeView[];
  readonly buckets?: readonly BucketView[];
}

export type Direction = "forward" | "backward";

/** A parameter of an operator, drawn as a row in its box. */
export interface ParameterRow {
  readonly name: string;
  readonly value: string;
  /** As it is stored, which the steps start from. */
  readonly layout: string;
  readonly cells: readonly CellView[];
  readonly steps: Readonly<Record<Direction, readonly BadgeView[]>>;
  /** Where the gradient is reduced together with others; empty where it is reduced by itself. */
  readonly bucket: string;
}

/** An operator, or a port: a value that enters the model or is carried from layer to layer. */
export interface GraphBox {
  readonly id: string;
  readonly kind: "op" | "input" | "carry";
  /** Index of the group that it is drawn in; -1 for the topmost level. */
  readonly parent: number;
  readonly title: string;
  readonly subtitle: string;
  readonly cells: readonly CellView[];
  readonly partial: readonly string[];
  readonly reduce: string;
  readonly layout: string;
  readonly parameters: readonly ParameterRow[];
}

/** Collectives of one execution of a group; those of a run are of all its layers. */
export interface Tally {
  readonly collectives: number;
  readonly bytes: number;
  readonly seconds: number;
}

export interface GraphGroup {
  readonly id: string;
  readonly path: string;
  readonly kind: "module" | "run" | "parts";
  readonly parent: number;
  readonly title: string;
  readonly subtitle: string;
  readonly layers: number;
  readonly start: number;
  readonly total: number;
  /** From one layer of a run to the next. */
  readonly step: number;
  readonly operators: number;
  readonly tally: Readonly<Record<Direction, Tally>>;
}

/** A value with its readers: one hyperedge. */
export interface GraphTensor {
  readonly id: string;
  readonly label: string;
  readonly producer: number;
  readonly readers: readonly number[];
  readonly layout: string;
  /** Indices into the model's deliveries. */
  readonly deliveries: Readonly<Record<Direction, readonly number[]>>;
}

/** The collectives that bring a tensor to those of its readers that want it in one and the same layout. */
export interface Delivery {
  readonly tensor: number;
  readonly phase: Direction;
  readonly readers: readonly number[];
  readonly steps: readonly BadgeView[];
}

export interface GraphModel {
  readonly name: string;
  readonly boxes: readonly GraphBox[];
  /** Parents before their children. */
  readonly groups: readonly GraphGroup[];
  readonly tensors: readonly GraphTensor[];
  readonly deliveries: readonly Delivery[];
  readonly boxOf: ReadonlyMap<string, number>;
  /** Includes the ids of groups that are left out because they hold a run and nothing else. */
  readonly groupOf: ReadonlyMap<string, number>;
}

export type Target = { readonly kind: "box" | "group"; readonly index: number };

/** Return what an id names, if anything. */
export function find(model: GraphModel, id: string): Target | null {
  const box = model.boxOf.get(id);
  if (box !== undefined) return { kind: "box", index: box };
  const group = model.groupOf.get(id);
  return group === undefined ? null : { kind: "group", index: group };
}
