"""Time from the click on a chip to the painted new numbers, measured in the page."""

from __future__ import annotations

from playwright.sync_api import expect

from .designer import Designer

# The click's own time stamp is when the browser got it. A frame begins after the text has changed; the message that is
# sent in it is handled when that frame has been painted.
WATCH = """() => {
  const edits = (window.__edits = []);
  let clicked = 0;
  document.addEventListener("click", (event) => { clicked = event.timeStamp; }, true);
  const number = document.querySelector('[data-testid="step-time"]');
  new MutationObserver(() => {
    if (clicked === 0) return;
    const from = clicked;
    clicked = 0;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port2.onmessage = () => edits.push(performance.now() - from);
      port1.postMessage(null);
    });
  }).observe(number, { characterData: true, childList: true, subtree: true });
}"""


def edit_latencies(designer: Designer, count: int, label: str = "q_proj") -> list[float]:
    """Return milliseconds of `count` edits that move `tp` of an operator between its factors `k` and `n`."""
    designer.pick(label)
    designer.page.evaluate(WATCH)
    for edit in range(count):
        here, there = ("n", "k") if edit % 2 == 0 else ("k", "n")
        chip = designer.chip(there, "tp")
        expect(chip).to_have_attribute("aria-description", f"Move tp from {here} to {there}")
        with designer.edit():
            chip.click()
        designer.page.wait_for_function("(done) => window.__edits.length >= done", arg=edit + 1)
    found: list[float] = designer.page.evaluate("() => window.__edits")
    return found


def percentile(values: list[float], percent: float) -> float:
    """Return the smallest value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(percent) // 100) - 1)]
