import { useEffect, useRef, useState } from "react";
import { problemOf } from "../../api/client";
import type { Figure, Problem } from "../../api/types";
import { ProblemNote } from "../../ui/states";
import classes from "./panels.module.css";

interface Trace {
  name?: string;
  marker?: object;
  [key: string]: unknown;
}

const CONFIG = { displayModeBar: false, scrollZoom: true, responsive: true };

/** A figure that Python made; theme, axis colours and clicks are added here. Plotly is loaded when the first is shown. */
export function Plot({
  figure,
  colours,
  dark,
  label,
  onClick,
}: {
  figure: Figure;
  colours: Record<string, string>;
  dark: boolean;
  label: string;
  onClick(data: unknown): void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const click = useRef(onClick);
  click.current = onClick;
  const [problem, setProblem] = useState<Problem | null>(null);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let current = true;
    import("plotly.js-basic-dist-min")
      .then(async ({ default: plotly }) => {
        if (!current) return;
        const data = figure.data.map((trace) => coloured(trace, colours));
        const drawn = await plotly.react(
          element,
          data,
          { ...figure.layout, ...look(figure, dark) },
          CONFIG,
        );
        drawn.removeAllListeners("plotly_click");
        drawn.on("plotly_click", ({ points }) => click.current(points[0]?.customdata));
      })
      .catch((error: unknown) => current && setProblem(problemOf(error)));
    return () => {
      current = false;
    };
  }, [figure, colours, dark]);

  // Its listeners on the window would outlive the element.
  useEffect(() => {
    const element = box.current;
    return () => {
      if (element?.hasChildNodes()) {
        void import("plotly.js-basic-dist-min").then(({ default: plotly }) =>
          plotly.purge(element),
        );
      }
    };
  }, []);

  if (problem) return <ProblemNote problem={problem} />;
  return <div ref={box} className={classes["plot"]} role="img" aria-label={label} />;
}

/** A trace that is about an axis gets its hue. */
function coloured(trace: Trace, colours: Record<string, string>): Trace {
  const colour = trace.name === undefined ? undefined : colours[trace.name.split(/[ ·]/)[0] ?? ""];
  return colour ? { ...trace, marker: { ...trace.marker, color: colour } } : trace;
}

function look(figure: Figure, dark: boolean): object {
  const text = dark ? "#e3e9f1" : "#18212e";
  const grid = dark ? "#2b3441" : "#d7dfe9";
  const axis = (name: string) => ({
    ...(figure.layout[name] as object | undefined),
    gridcolor: grid,
    zerolinecolor: grid,
    automargin: true,
  });
  return {
    autosize: true,
    dragmode: "pan",
    hovermode: "closest",
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: '"Inter Variable", sans-serif', size: 11, color: text },
    hoverlabel: { font: { family: '"Inter Variable", sans-serif', size: 11 } },
    margin: { l: 8, r: 12, t: 8, b: 8 },
    xaxis: axis("xaxis"),
    yaxis: axis("yaxis"),
    uirevision: "keep",
  };
}
