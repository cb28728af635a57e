"""Measure the graph canvas in Chromium and write `benchmarks/graph.md`: `python benchmarks/graph/measure.py`.

Needs the front end's node modules, `pip install playwright` and Debian's Chromium. The page is the production build of
the lab page; software painting, as in CI.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FRONTEND = ROOT / "frontend"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--force-color-profile=srgb",
]  # fmt: skip
RUNS = 5

READY = "() => window.__graph && window.__graph.view.timing.turn > 0"
EXPAND = """async () => {
  const { view } = window.__graph;
  view.setOpen([]);
  await window.__graph.settled();
  const start = performance.now();
  view.setOpen(view.model.groups.map((group) => group.id));
  await window.__graph.settled();
  return { wall: performance.now() - start, ...view.timing };
}"""
OPEN = """async (id) => {
  const { view } = window.__graph;
  const start = performance.now();
  window.__graph.open(id);
  await window.__graph.settled();
  return { wall: performance.now() - start, ...view.timing };
}"""
PAN = """async ({ zoom, dx, dy }) => {
  const { view } = window.__graph;
  // In the middle of the graph, so that the window is full all the way.
  view.center("layers.125.o_proj");
  view.viewport.zoomTo(zoom);
  const gaps = [], paints = [];
  let last = performance.now();
  for (let i = 0; i < 120; i += 1) {
    view.viewport.pan(i < 60 ? dx : -dx, i < 60 ? dy : -dy);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    paints.push(view.timing.paint);
    last = now;
  }
  const sorted = (list) => [...list].sort((a, b) => a - b);
  const [g, p] = [sorted(gaps), sorted(paints)];
  const mean = gaps.reduce((a, b) => a + b, 0) / gaps.length;
  return { fps: 1000 / mean, gap95: g[113], paint50: p[60], paint95: p[113], paintMax: p[119] };
}"""
FIT = """async () => {
  const start = performance.now();
  window.__graph.fit();
  await window.__graph.settled();
  return { wall: performance.now() - start, paint: window.__graph.view.timing.paint };
}"""


def main() -> None:
    """Build, serve, measure, write."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        handler = functools.partial(Quiet, directory=folder)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rows = measure(f"http://127.0.0.1:{server.server_port}/graph-lab.html")
        server.shutdown()
    text = report(rows)
    (ROOT / "benchmarks/graph.md").write_text(text, "utf-8")
    print(text)


class Quiet(SimpleHTTPRequestHandler):
    """A file server that says nothing."""

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def build(folder: Path) -> None:
    """Build the lab page alone."""
    config = folder / "vite.config.mjs"
    settings = {
        "root": str(FRONTEND), "base": "./", "logLevel": "error",
        "build": {"outDir": str(folder / "out"), "rolldownOptions": {"input": str(FRONTEND / "graph-lab.html")}},
    }  # fmt: skip
    config.write_text(f"export default {json.dumps(settings)};")
    subprocess.run(["npx", "vite", "build", "--config", str(config)], cwd=FRONTEND, check=True)
    for item in (folder / "out").iterdir():
        shutil.move(item, folder / item.name)


def measure(page_url: str) -> list[tuple[str, str, str]]:
    """Return rows of what, measured and budget; each time is the median of several runs."""
    rows: list[tuple[str, str, str]] = []
    with sync_playwright() as runtime:
        browser = runtime.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS)
        firsts, opens = [], []
        for _ in range(RUNS):
            page = load(browser, f"{page_url}?view=405b")
            firsts.append(page.evaluate("() => performance.now()"))
            opens.append(page.evaluate(OPEN, "model.layers.0-125:model.layers.*"))
            page.close()
        rows.append(("Llama-3.1-405B folded: navigation to first paint", f"{mid(firsts):.0f} ms", "2 s"))
        rows.append(("… open one layer (27 boxes)", f"{mid([o['wall'] for o in opens]):.0f} ms", "–"))

        page = load(browser, f"{page_url}?view=250")
        count = page.evaluate("() => window.__graph.view.model.boxes.length")
        expands = [page.evaluate(EXPAND) for _ in range(RUNS)]
        first, again = expands[0], expands[1:]
        rows.append((f"{count:,} operators: expand all, first time", f"{first['wall']:.0f} ms", "600 ms"))
        rows.append(("… of which layout in the worker", f"{first['layout']:.0f} ms", "–"))
        rows.append(("… expand all again (frames cached)", f"{mid([e['wall'] for e in again]):.0f} ms", "600 ms"))
        for name, pan in {
            "pan at 1:1, all open": {"zoom": 1, "dx": 3, "dy": -25},
            "pan at 0.4 (boxes)": {"zoom": 0.4, "dx": 3, "dy": -25},
            "pan at 0.1 (bars)": {"zoom": 0.1, "dx": 1, "dy": -5},
            "pan at 0.02": {"zoom": 0.02, "dx": 1, "dy": -2},
        }.items():
            got = page.evaluate(PAN, pan)
            rows.append(
                (f"… {name}", f"{got['fps']:.0f} fps, paint p50 {got['paint50']:.1f} / p95 {got['paint95']:.1f} ms",
                 "paint ≤ 16 ms")
            )  # fmt: skip
        fits = [page.evaluate(FIT) for _ in range(RUNS)]
        rows.append(("… fit the whole graph", f"{mid([f['wall'] for f in fits]):.0f} ms", "–"))
        heap = page.evaluate("() => performance.memory.usedJSHeapSize / 2 ** 20")
        rows.append(("… script heap", f"{heap:.0f} MiB", "–"))
        rows.append(("… elements in the page", str(page.evaluate("() => document.querySelectorAll('*').length")), "–"))
        browser.close()
    return rows


def load(browser: object, url: str) -> Page:
    """Open a page at the size of a laptop and wait for its first layout."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")  # type: ignore[attr-defined]
    page: Page = context.new_page()
    page.goto(url)
    page.wait_for_function(READY, timeout=60_000)
    return page


def mid(values: list[float]) -> float:
    """Return the median."""
    return sorted(values)[len(values) // 2]


def report(rows: list[tuple[str, str, str]]) -> str:
    """Return the page."""
    table = "\n".join(f"| {what} | {got} | {budget} |" for what, got, budget in rows)
    return f"""# The graph canvas, measured

`python benchmarks/graph/measure.py` builds the lab page, opens it in headless Chromium (software painting, 1280 × 800)
and writes this table. Machine: {os.cpu_count()} CPU cores, {platform.system()}, shared with other work; times are
medians of {RUNS} runs unless said otherwise. 60 fps is the cap.

| what | measured | budget |
|---|---|---|
{table}

Budgets are those of the project's CI: expand-all of about 10,000 operators within 600 ms, a frame within 16 ms.
"""


if __name__ == "__main__":
    main()
