"""A Plotly figure as plain values."""

from __future__ import annotations

from typing import Any

# Muted and ordered as in the page: forward, backward, then what is neither.
FORWARD, BACKWARD, OTHER = "#4e79a7", "#9c755f", "#bab0ac"
# For parts that have no order and no other colour.
PARTS = ("#4e79a7", "#9c755f", "#59a14f", "#edc948", "#b07aa1", "#76b7b2", "#ff9da7", "#bab0ac")
OVER = "#d62728"


def figure(bars: list[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    """Return stacked bars as `{"data": …, "layout": …}`; plotly checks every property on the way."""
    return drawn([{"type": "bar", **bar} for bar in bars], {"barmode": "stack", "hovermode": "closest", **layout})


def drawn(data: list[dict[str, Any]], layout: dict[str, Any]) -> dict[str, Any]:
    """Return traces of any kind as `{"data": …, "layout": …}`; plotly checks every property on the way."""
    import plotly.graph_objects as go

    made = go.Figure(data=data)
    made.update_layout(template="none", **layout)
    plain: dict[str, Any] = made.to_plotly_json()
    # The empty template that "none" stands for; a figure without one takes what the page gives it.
    plain["layout"].pop("template", None)
    return {key: _lists(value) for key, value in plain.items()}


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def page(figure: dict[str, Any], title: str) -> str:
    """Return a figure as an HTML page that carries Plotly with it, so that it opens anywhere."""
    import plotly.graph_objects as go
    from plotly.io import to_html

    made = go.Figure(figure)
    made.update_layout(title={"text": title})
    return str(to_html(made, include_plotlyjs=True, full_html=True))
