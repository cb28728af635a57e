"""The designer as a person uses it: words for what tests do in the page, and the same plan asked through REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from playwright.sync_api import Locator, Page, Response, expect

from tests.backend.server import Server

from .units import in_memory, in_seconds

State = dict[str, Any]
MEGATRON: dict[str, Any] = {
    "model": "llama-3-8b",
    "cluster": "1x8-h100-sxm",
    "mesh": [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}],
    "global_batch": 8,
    "seq": 4096,
    "presets": [{"name": "data_parallel", "axes": {"axis": ["dp"]}}, {"name": "megatron", "axes": {"axis": ["tp"]}}],
}
TINY = MEGATRON | {
    "model": "llama-tiny", "cluster": "1x2-h100-sxm", "mesh": [{"name": "tp", "size": 2}], "seq": 64,
    "presets": [{"name": "megatron", "axes": {"axis": ["tp"]}}],
}  # fmt: skip


class Rest:
    """The server, asked without the page."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def ask(self, method: str, path: str, body: object = None, status: int = 200, **headers: str) -> Any:
        found, answer = self.server.ask(method, f"/api/v1{path}", body, **headers)
        assert found == status, answer
        return answer

    def new_plan(self, **changes: Any) -> State:
        state: State = self.ask("POST", "/plans", MEGATRON | changes, 201)
        return state

    def plan(self, plan_id: str) -> State:
        state: State = self.ask("GET", f"/plans/{plan_id}")
        return state

    def edit(self, state: State, *changes: dict[str, Any]) -> State:
        body = {"changes": list(changes)}
        edited: State = self.ask("PATCH", f"/plans/{state['id']}", body, If_Match=f'"{state["version"]}"')
        return edited


def decided(state: State) -> State:
    """Return everything of a plan's state but what tells when it was computed and how it came about."""
    summary = {name: value for name, value in state["summary"].items() if name != "evaluated_ms"}
    rest = {name: value for name, value in state.items() if name not in ("version", "undo", "redo", "summary")}
    return rest | {"summary": summary}


class Designer:
    """A plan that is open in a page."""

    def __init__(self, page: Page, rest: Rest, plan_id: str) -> None:
        self.page, self.rest, self.plan_id = page, rest, plan_id

    @classmethod
    def on(cls, page: Page, rest: Rest) -> Self:
        """Return the designer that the page already shows."""
        page.wait_for_url("**/plans/*")
        return cls(page, rest, page.url.rpartition("/")[2]).ready()

    def open(self) -> Self:
        self.page.goto(f"/plans/{self.plan_id}")
        return self.ready()

    def ready(self) -> Self:
        """Wait until numbers and graph are on screen."""
        expect(self.step_time).to_be_visible()
        self.page.wait_for_function("() => window.__graph && window.__graph.view.timing.turn > 0")
        return self

    # ---------------------------------------------------------------- what is on screen

    @property
    def step_time(self) -> Locator:
        return self.page.get_by_test_id("step-time")

    @property
    def memory(self) -> Locator:
        return self.page.get_by_test_id("memory")

    @property
    def inspected(self) -> Locator:
        return self.page.get_by_test_id("inspected")

    def chip(self, factor: str, axis: str) -> Locator:
        return self.page.get_by_test_id(f"chip:{factor}:{axis}")

    def numbers(self) -> tuple[str, str]:
        return self.step_time.inner_text(), self.memory.inner_text()

    def drawing(self) -> list[str]:
        """Return the whole graph as the page draws it: the elements of its SVG."""
        self.settle()
        text: str = self.page.evaluate("() => window.__graph.svg()")
        return text.split("<")

    def shows(self, state: State) -> None:
        """Check that the page shows the numbers of a state."""
        summary = state["summary"]
        expect(self.step_time).to_have_text(in_seconds(summary["step_time_s"]))
        expect(self.memory).to_have_text(in_memory(summary["memory_bytes"]))

    # ---------------------------------------------------------------- what the server knows

    def state(self) -> State:
        return self.rest.plan(self.plan_id)

    def node(self, label: str) -> dict[str, Any]:
        found: dict[str, Any] = next(node for node in self.state()["view"]["nodes"] if node["label"] == label)
        return found

    # ---------------------------------------------------------------- what a person does

    def settle(self) -> None:
        self.page.evaluate("() => window.__graph.settled()")

    def click_in_graph(self, label: str) -> None:
        """Bring an operator into view and click the pixels where it is drawn."""
        node = self.node(label)["id"]
        self.page.evaluate("(id) => window.__graph.center(id)", node)
        self.settle()
        box = self.page.evaluate("(id) => window.__graph.screenOf(id)", node)
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + min(8, box["height"] / 2))
        expect(self.inspected).to_have_text(label)

    def pick(self, label: str) -> None:
        """Select an operator by its row in the outline, opening what is around it."""
        node = self.node(label)
        parents = {group["id"]: group["parent"] for group in self.state()["view"]["groups"]}
        around, group = [], node["group"]
        while group:
            around.append(group)
            group = parents[group]
        for group in reversed(around):
            row = self.page.get_by_test_id(f"group:{group}")
            if row.get_attribute("aria-expanded") == "false":
                row.locator("[aria-hidden]").first.click()
                expect(row).to_have_attribute("aria-expanded", "true")
        self.page.get_by_test_id(f"op:{node['id']}").click()
        expect(self.inspected).to_have_text(label)

    @contextmanager
    def edit(self) -> Iterator[None]:
        """Wait until the edit made inside is accepted and shown."""
        with self.page.expect_response(changes_plan) as answer:
            yield
        assert answer.value.status == 200, answer.value.text()
        self.shows(json.loads(answer.value.body()))

    def toggle(self, factor: str, axis: str) -> None:
        """Click a chip once it says what it would do."""
        chip = self.chip(factor, axis)
        expect(chip).to_be_enabled()
        with self.edit():
            chip.click()

    def undo(self) -> None:
        with self.edit():
            self.page.keyboard.press("Control+z")

    def tab(self, name: str) -> Locator:
        """Open a tab of the panel below and return its content."""
        self.page.get_by_role("tab", name=name).click()
        return self.page.get_by_role("tabpanel")


def changes_plan(response: Response) -> bool:
    method = response.request.method
    return method == "PATCH" or (method == "POST" and response.url.endswith(("/undo", "/redo")))
