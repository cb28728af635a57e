"""Plans in the database, each with a history of at most `HISTORY_STEPS` edits that can be taken back.

Every method is one transaction, committed when it returns: what was answered is kept, whatever happens next. A change
names the version that it was made on, and is refused if the plan has moved on since; the check is part of the first
statement, so that two writers can't both pass it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from planner.core.graph import ModelSource
from planner.core.plan import Decisions

from .database import Database
from .models import keep
from .snapshot import dump, load
from .tables import HistoryRow, ModelRow, PlanRow

HISTORY_STEPS = 200


class VersionConflict(Exception):
    """The plan is at another version than the change was made on."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"the plan is at version {version}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it is kept.

    Parameters
    ----------
    undo, redo
        Labels of the edits that undo and redo would take; None if there is none.
    numbers
        Step time, memory and capacity.
    """

    id: str
    name: str
    version: int
    updated: datetime
    source: ModelSource
    decisions: Decisions
    undo: str | None
    redo: str | None
    numbers: tuple[float, float, float]


class PlanStore:
    """The plans of a database."""

    def __init__(self, database: Database) -> None:
        self._session = database.session

    def add(self, name: str, source: ModelSource, decisions: Decisions, numbers: tuple[float, float, float]) -> str:
        """Keep a new plan and return its id."""
        plan_id = secrets.token_hex(8)
        with self._session.begin() as session:
            model = keep(session, source)
            session.add(
                PlanRow(
                    id=plan_id,
                    name=name,
                    model_id=model.id,
                    model_name=source.name,
                    version=1,
                    position=0,
                    updated=datetime.now(UTC),
                    **_numbers(numbers),
                )
            )
            session.flush()
            session.add(HistoryRow(plan_id=plan_id, position=0, label="", decisions=dump(source, decisions)))
        return plan_id

    def get(self, plan_id: str) -> StoredPlan | None:
        """Return a plan."""
        with self._session() as session:
            row = session.get(PlanRow, plan_id)
            return None if row is None else _stored(session, row)

    def all(self) -> tuple[StoredPlan, ...]:
        """Return every plan, the one changed last first."""
        with self._session() as session:
            rows = session.scalars(select(PlanRow).order_by(PlanRow.updated.desc(), PlanRow.id)).all()
            return tuple(_stored(session, row) for row in rows)

    def edit(
        self, plan: StoredPlan, decisions: Decisions, label: str, numbers: tuple[float, float, float]
    ) -> StoredPlan:
        """Add an edit to the history of a plan, after where it stands; what was undone before is gone.

        Raises
        ------
        VersionConflict
        """
        with self._session.begin() as session:
            row = _advance(session, plan, PlanRow.position + 1, numbers)
            session.execute(
                delete(HistoryRow).where(HistoryRow.plan_id == plan.id, HistoryRow.position >= row.position)
            )
            session.execute(
                delete(HistoryRow).where(
                    HistoryRow.plan_id == plan.id, HistoryRow.position < row.position - HISTORY_STEPS
                )
            )
            step = HistoryRow(
                plan_id=plan.id, position=row.position, label=label, decisions=dump(plan.source, decisions)
            )
            session.add(step)
            session.flush()
            return _stored(session, row)

    def neighbour(self, plan: StoredPlan, steps: int) -> Decisions | None:
        """Return the decisions that `steps` edits later (or, negative, before) were or had been made."""
        with self._session() as session:
            row = session.get(PlanRow, plan.id)
            found = row and session.get(HistoryRow, (plan.id, row.position + steps))
            return load(plan.source, found.decisions) if found else None

    def labels(self, plan: StoredPlan) -> tuple[str, ...]:
        """Return the labels of the edits that can be taken back, the last one first."""
        with self._session() as session:
            row = session.get(PlanRow, plan.id)
            here = select(HistoryRow.label).where(
                HistoryRow.plan_id == plan.id, HistoryRow.position <= (row.position if row else -1)
            )
            # The oldest that is kept is the state before the first of them.
            return tuple(session.scalars(here.order_by(HistoryRow.position.desc())))[:-1]

    def move(self, plan: StoredPlan, steps: int, numbers: tuple[float, float, float]) -> StoredPlan:
        """Take a plan to the neighbour in its history.

        Raises
        ------
        VersionConflict
        """
        with self._session.begin() as session:
            return _stored(session, _advance(session, plan, PlanRow.position + steps, numbers))

    def rename(self, plan_id: str, name: str) -> StoredPlan | None:
        """Give a plan another name; its version stays, as its decisions do."""
        with self._session.begin() as session:
            row = session.get(PlanRow, plan_id)
            if row is None:
                return None
            row.name = name
            session.flush()
            return _stored(session, row)

    def remove(self, plan_id: str) -> bool:
        """Delete a plan with its history, and return whether there was one."""
        with self._session.begin() as session:
            session.execute(delete(HistoryRow).where(HistoryRow.plan_id == plan_id))
            found = session.execute(delete(PlanRow).where(PlanRow.id == plan_id).returning(PlanRow.id)).first()
            return found is not None


def _advance(
    session: Session, plan: StoredPlan, position: ColumnElement[int], numbers: tuple[float, float, float]
) -> PlanRow:
    """Move a plan to its next version if it is still at the one that the caller saw."""
    moved = session.execute(
        update(PlanRow)
        .where(PlanRow.id == plan.id, PlanRow.version == plan.version)
        .values(version=PlanRow.version + 1, position=position, updated=datetime.now(UTC), **_numbers(numbers))
        .returning(PlanRow.id)
        .execution_options(synchronize_session=False)
    ).first()
    row = session.get(PlanRow, plan.id, populate_existing=True)
    if moved is None or row is None:
        raise VersionConflict(row.version if row else 0)
    return row


def _numbers(numbers: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("step_time_s", "memory_bytes", "capacity_bytes"), numbers, strict=True))


def _stored(session: Session, row: PlanRow) -> StoredPlan:
    model = session.get_one(ModelRow, row.model_id)
    digest = row.model_id.removeprefix("sha256-")
    source = ModelSource(name=row.model_name, kind=model.kind, digest=digest, content=model.content)
    here = session.get_one(HistoryRow, (row.id, row.position))
    before = session.get(HistoryRow, (row.id, row.position - 1))
    after = session.get(HistoryRow, (row.id, row.position + 1))
    return StoredPlan(
        id=row.id, name=row.name, version=row.version, updated=row.updated.replace(tzinfo=UTC), source=source,
        decisions=load(source, here.decisions), undo=here.label if before else None,
        redo=after.label if after else None,
        numbers=(row.step_time_s, row.memory_bytes, row.capacity_bytes),
    )  # fmt: skip
