"""Evaluates a plan once, and keeps the last ones at hand.

The key is what an evaluation depends on, so undo, what-if before an edit, and two plans with the same decisions find
it already done.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from time import perf_counter

from planner import Plan, compose
from planner.core.assignment import TrainingGraph
from planner.core.graph import ModelGraph, ModelSource
from planner.core.plan import Decisions
from planner.core.report import Report
from planner.core.view import PlanView
from planner.importers import load_at_once

from .traces import Traces

KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A plan with everything that follows from it.

    Parameters
    ----------
    took_s
        Seconds that the evaluation took.
    """

    plan: Plan
    training: TrainingGraph
    view: PlanView
    report: Report
    took_s: float

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Step time, memory and capacity."""
        return self.report.step_time.value, self.report.memory.value, self.report.capacity_bytes


class Evaluator:
    """The evaluations at hand, least recently used out first; safe for several threads.

    Parameters
    ----------
    traces
        Where graphs are kept that take long to trace.
    """

    def __init__(self, traces: Traces | None = None) -> None:
        self._traces = traces or Traces(None)
        self._kept: OrderedDict[tuple[str, str, Decisions], Evaluated] = OrderedDict()
        self._graphs: OrderedDict[tuple[str, str], ModelGraph] = OrderedDict()
        self._lock = Lock()

    def evaluate(self, plan: Plan) -> Evaluated:
        """Return the evaluation of a plan.

        Raises
        ------
        PlannerError
            When the plan is not legal.
        """
        key = (plan.graph.source.digest, plan.graph.name, plan.decisions)
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
        start = perf_counter()
        training = compose.train(plan)
        view, report = compose.view(plan, training)
        made = Evaluated(plan=plan, training=training, view=view, report=report, took_s=perf_counter() - start)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def graph(self, source: ModelSource) -> ModelGraph:
        """Return the graph of a model that is kept in the database."""
        key = (source.digest, source.name)
        with self._lock:
            if (found := self._graphs.get(key)) is not None:
                self._graphs.move_to_end(key)
                return found
        graph = self._traces.get(source)
        if graph is not None:
            self._hold(graph)
            return graph
        graph = compose.load_source(source)
        self.keep(graph)
        return graph

    def keep(self, graph: ModelGraph) -> None:
        """Keep the graph of a model that was just loaded; a traced one for good."""
        source = graph.source
        if source.kind == "hf_config" and isinstance(load_at_once(source.content, source.name), ModelSource):
            self._traces.put(graph)
        self._hold(graph)

    def _hold(self, graph: ModelGraph) -> None:
        with self._lock:
            self._graphs[graph.source.digest, graph.source.name] = graph
            while len(self._graphs) > KEPT:
                self._graphs.popitem(last=False)

    def plan(self, source: ModelSource, decisions: Decisions) -> Evaluated:
        """Return the evaluation of decisions on a model."""
        return self.evaluate(Plan(graph=self.graph(source), decisions=decisions))
