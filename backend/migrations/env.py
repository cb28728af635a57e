"""Alembic runs this for every command; the connection comes from `backend.store.database`."""

from __future__ import annotations

from alembic import context

from backend.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite changes a column by writing the table anew.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
