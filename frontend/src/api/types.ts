// The nouns of the API under one roof: the only file that imports the generated schema.
export type {
  Badge,
  Cell,
  Choice,
  CodeFile,
  CollectiveRow,
  CostItem,
  DeviceInfo,
  Diagnostic,
  EdgeView,
  FactorChange,
  FactorView,
  GroupView,
  Job,
  MeshAxis,
  ModelInfo,
  NewPlan,
  NodeView,
  PlanState,
  PlanSummary,
  PlanView,
  PresetInfo,
  PresetUse,
  Problem,
  Proof,
  Registry,
  Report,
  Summary,
  TensorView,
} from "./schema";

import type { Edit } from "./schema";

export type Change = Edit["changes"][number];
