"""Models in the database, by the digest of their content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.core.graph import ModelSource

from .database import Database
from .tables import ModelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model that was imported."""

    id: str
    source: ModelSource


class ModelStore:
    """The models of a database."""

    def __init__(self, database: Database) -> None:
        self._session = database.session

    def add(self, source: ModelSource) -> StoredModel:
        """Keep an imported model; the same content again takes the newer name."""
        with self._session.begin() as session:
            row = keep(session, source)
            row.name, row.listed = source.name, True
            return _stored(row)

    def get(self, model_id: str) -> StoredModel | None:
        """Return an imported model by its id."""
        with self._session() as session:
            row = session.get(ModelRow, model_id)
            return None if row is None or not row.listed else _stored(row)

    def all(self) -> tuple[StoredModel, ...]:
        """Return every imported model, oldest first."""
        with self._session() as session:
            rows = session.scalars(select(ModelRow).where(ModelRow.listed).order_by(ModelRow.created, ModelRow.id))
            return tuple(_stored(row) for row in rows)


def model_id(source: ModelSource) -> str:
    """Return the id under which the content of a source is kept."""
    return f"sha256-{source.digest}"


def keep(session: Session, source: ModelSource) -> ModelRow:
    """Return the row of a model's content; a new one is not listed."""
    row = session.get(ModelRow, model_id(source))
    if row is None:
        row = ModelRow(
            id=model_id(source), name=source.name, kind=source.kind, content=source.content, listed=False,
            created=datetime.now(UTC),
        )  # fmt: skip
        session.add(row)
        session.flush()
    return row


def _stored(row: ModelRow) -> StoredModel:
    source = ModelSource(name=row.name, kind=row.kind, digest=row.id.removeprefix("sha256-"), content=row.content)
    return StoredModel(id=row.id, source=source)
