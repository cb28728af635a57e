"""The exported code of plans, written once however often it is looked at."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from planner import PlannerError, compose, delivery
from planner.core.code import CodeMark
from planner.errors import Diagnostic
from planner.exporters import EXPORTERS

from .evaluation import Evaluated

KEPT = 16

Key = tuple[str, str, object, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A bundle, path → text, and what its lines stand for."""

    files: dict[str, str]
    marks: tuple[CodeMark, ...]


class Exports:
    """The bundles at hand, least recently used out first; safe for several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Exported] = OrderedDict()
        self._lock = Lock()
        # The page asks for forms, files and changes at once: what one of them writes, the others find written.
        self._writing = Lock()

    def write(self, found: Evaluated, form: str) -> Exported:
        """Return the code of a plan in a form.

        Raises
        ------
        PlannerError
            When the plan can't be written in this form.
        """
        graph = found.plan.graph
        key = (graph.source.digest, graph.name, found.plan.decisions, form)
        if (known := self._known(key)) is not None:
            return known
        with self._writing:
            if (known := self._known(key)) is not None:
                return known
            files = delivery.bundle(found.plan, form, found.training)
            made = Exported(files=files, marks=compose.code_marks(found.plan, form, found.training))
            with self._lock:
                self._kept[key] = made
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return made

    def _known(self, key: Key) -> Exported | None:
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return known

    def refusals(self, found: Evaluated) -> dict[str, Diagnostic | None]:
        """Return form → why the plan can't be written in it, or None."""
        return {form: self._refusal(found, form) for form in EXPORTERS}

    def _refusal(self, found: Evaluated, form: str) -> Diagnostic | None:
        try:
            self.write(found, form)
        except PlannerError as error:
            return error.diagnostic
        return None
