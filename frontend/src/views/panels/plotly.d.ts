// The part of Plotly that the page uses; the bundle comes without types.
declare module "plotly.js-basic-dist-min" {
  export interface PlotlyPoint {
    x: unknown;
    y: unknown;
    customdata?: unknown;
    data: { name?: string };
  }
  export interface PlotlyElement extends HTMLElement {
    on(event: "plotly_click", handler: (event: { points: PlotlyPoint[] }) => void): void;
    removeAllListeners(event: string): void;
  }
  interface Plotly {
    react(
      element: HTMLElement,
      data: object[],
      layout: object,
      config: object,
    ): Promise<PlotlyElement>;
    purge(element: HTMLElement): void;
    toImage(
      figure: { data: object[]; layout: object },
      options: { format: "png" | "svg"; width: number; height: number },
    ): Promise<string>;
    Plots: { resize(element: HTMLElement): void };
  }
  const plotly: Plotly;
  export default plotly;
}
