import type { PlotlyPoint } from "plotly.js-basic-dist-min";
import { useEffect, useRef, useState } from "react";
import { problemOf } from "../../api/client";
import type { Figure, Problem } from "../../api/types";
import { ProblemNote } from "../../ui/states";
import classes from "./panels.module.css";

const CONFIG = { displayModeBar: false, scrollZoom: true, responsive: true };

/** A figure that Python made; theme and clicks are added here. Plotly is loaded when the first is shown. */
export function Plot({
  figure,
  dark,
  label,
  onClick,
}: {
  figure: Figure;
  dark: boolean;
  label: string;
  onClick(point: PlotlyPoint): void;
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
        const drawn = await plotly.react(
          element,
          figure.data,
          { ...figure.layout, ...look(figure, dark) },
          CONFIG,
        );
        drawn.removeAllListeners("plotly_click");
        drawn.on("plotly_click", ({ points }) => points[0] && click.current(points[0]));
      })
      .catch((error: unknown) => current && setProblem(problemOf(error)));
    return () => {
      current = false;
    };
  }, [figure, dark]);

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

/** Fonts and lines of the page. */
export function look(figure: Figure, dark: boolean): object {
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
    ...("yaxis2" in figure.layout && { yaxis2: axis("yaxis2") }),
    uirevision: "keep",
  };
}
