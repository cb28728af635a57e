"""What of a plan the native form can't express, gathered so that the first of them can be named together."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import ExportError

SHOWN = 5
REMEDY = "Use the explicit form, which writes any plan, or change these decisions."


@dataclass(slots=True)
class Problems:
    """Reasons against the native form, each with what it is about, in the order in which they were found."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, subject: str, reason: str) -> None:
        """Note a reason; the first one for each subject is kept."""
        self.found.setdefault(subject, reason)

    def hold(self) -> None:
        """Stop if there are any.

        Raises
        ------
        ExportError
            `export.native-decisions`, naming the first of them.
        """
        if not self.found:
            return
        listed = [f"{subject}: {reason}." for subject, reason in self.found.items()]
        more = f" And {len(listed) - SHOWN} more." if len(listed) > SHOWN else ""
        raise ExportError(
            "export.native-decisions",
            "parallelize_module, fully_shard and torch's pipelining can't express this plan. "
            f"{' '.join(listed[:SHOWN])}{more}",
            REMEDY, subject=next(iter(self.found)),
        )  # fmt: skip
