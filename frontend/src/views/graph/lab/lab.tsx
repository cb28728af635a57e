/** A page to look at the canvas alone, and to measure it: `?view=405b&dark=1&direction=backward`. */

import { useState } from "react";
import { createRoot } from "react-dom/client";
import "@fontsource-variable/inter";
import runs from "../fixtures/llama-8b-runs.json";
import large from "../fixtures/llama-405b.json";
import { GraphCanvas } from "../GraphCanvas";
import type { PlanView } from "../model";
import { syntheticView } from "./synthetic";

const COLOURS = { dp: "#0072B2", tp: "#E69F00", pp: "#009E73", cp: "#CC79A7", ep: "#56B4E9" };

function viewOf(name: string): PlanView {
  if (name === "405b") return large;
  if (name === "runs") return runs;
  const layers = Number(name);
  return layers > 0 ? syntheticView(layers) : { model: "", groups: [], nodes: [], edges: [] };
}

function Lab() {
  const query = new URLSearchParams(location.search);
  const [selected, select] = useState<string | null>(query.get("select"));
  const [view] = useState(() => viewOf(query.get("view") ?? "405b"));
  const [direction, turn] = useState<"forward" | "backward">(
    query.get("direction") === "backward" ? "backward" : "forward",
  );
  Object.assign(window, { __turn: turn });
  return (
    <GraphCanvas
      view={view}
      axisColours={COLOURS}
      selected={selected}
      marked={[]}
      direction={direction}
      dark={query.has("dark")}
      pending={false}
      onSelect={select}
    />
  );
}

const root = document.getElementById("root");
if (root) createRoot(root).render(<Lab />);
