// The nouns of the API under one roof: the only file that names the generated schema's types.
export type {
  Badge,
  Cell,
  Choice,
  CodeFile,
  CollectiveRow,
  CostItem,
  DeviceEntry,
  Diagnostic,
  EdgeView,
  FactorDecision,
  FactorView,
  Figure,
  GroupView,
  Job,
  KeepDecision,
  MeshAxis,
  Model,
  NewPlan,
  NodeView,
  PlanState,
  PlanSummary,
  PlanView,
  PresetEntry,
  PresetUse,
  Problem,
  Proof,
  RedistributionAnswer,
  RedistributionRequest,
  RedistributionStep,
  Registry,
  Report,
  Slices,
  Summary,
  TensorView,
} from "./schema";

import type { Edit, FactorChange, ParameterChange } from "./schema";

export type Change = Edit["changes"][number];
export type { FactorChange, ParameterChange };
