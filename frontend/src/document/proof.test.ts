import { expect, it } from "vitest";
import type { ProofRow } from "../api/types";
import { view } from "./fixtures";
import { suspects, worstFirst } from "./proof";

const row = (name: string, error: number | null, more: Partial<ProofRow> = {}): ProofRow => ({
  name,
  error,
  rank: 0,
  ok: error !== null && error < 1e-10,
  node: "",
  edge: "",
  hint: "",
  ...more,
});

it("puts what differs most first, a number that is none before all, and what is equal in its order", () => {
  const rows = [row("loss", 0), row("b", 0.5), row("a", 1e-15), row("c", null), row("d", 2)];
  expect(worstFirst(rows).map(({ name }) => name)).toEqual(["c", "d", "b", "loss", "a"]);
});

it("finds the operator and the edge of a row by their names", () => {
  const found = suspects(view(), row("w", 1, { node: "layers.*.b", edge: "a" }));
  expect([found.node?.id, found.edge?.id]).toEqual(["run:layers.*.b", "run:a"]);
  expect(suspects(view(), row("w", 1, { node: "gone", edge: "gone" }))).toEqual({
    node: null,
    edge: null,
  });
  expect(suspects(view(), row("loss", 0))).toEqual({ node: null, edge: null });
});
