"""Covers: backend.store, backend.migrations; what is accepted is kept, even by a server that is killed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from backend.store import Database
from backend.store.database import MIGRATIONS
from backend.store.tables import Base

from .conftest import NEW_PLAN
from .server import Server


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'new' / 'plans.db'}")


def test_migrations_lead_to_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_migrations_lead_back(database: Database) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
        command.upgrade(config, "head")
        assert set(inspect(connection).get_table_names()) == {*Base.metadata.tables, "alembic_version"}


def test_every_commit_is_synced_to_disk(database: Database) -> None:
    with database.session() as session:
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert session.execute(text("PRAGMA synchronous")).scalar() == 2
        assert session.execute(text("PRAGMA foreign_keys")).scalar() == 1


def test_only_the_user_may_look_into_the_data_folder(database: Database, tmp_path: Path) -> None:
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def flips(server: Server, state: dict[str, Any], accepted: list[int]) -> None:
    """Edit until the server is gone; note each version that was answered."""
    version, path = state["version"], f"/api/v1/plans/{state['id']}"
    while True:
        axes = ["tp"] if version % 2 else []
        change = {"type": "factor", "target": "q_proj", "factor": "n", "axes": axes}
        try:
            status, after = server.ask("PATCH", path, {"changes": [change]}, If_Match=f'"{version}"')
        except OSError:
            return
        assert status == 200, after
        version = after["version"]
        accepted.append(version)


def test_a_killed_server_loses_no_accepted_edit(tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    for _ in range(2):
        with Server(tmp_path) as server:
            if not state:
                _, state = server.ask("POST", "/api/v1/plans", NEW_PLAN)
            accepted: list[int] = [state["version"]]
            writer = threading.Thread(target=flips, args=(server, state, accepted))
            writer.start()
            while len(accepted) < 8 and writer.is_alive():
                writer.join(0.005)
            server.kill()
            writer.join()
            assert len(accepted) >= 8
        with Server(tmp_path) as server:
            _, found = server.ask("GET", f"/api/v1/plans/{state['id']}")
            # The last edit may have been kept and its answer lost; never the other way round.
            assert found["version"] in {accepted[-1], accepted[-1] + 1}
            (decision,) = [d for d in found["decisions"] if d["target"] == "q_proj"]
            assert decision["axes"] == ([] if found["version"] % 2 else ["tp"])
            _, back = server.ask("POST", f"/api/v1/plans/{state['id']}/undo", If_Match=f'"{found["version"]}"')
            assert back["redo"] == found["undo"]
            state = back
            # The next round flips on from here; make version and axes agree again.
            _, state = server.ask("POST", f"/api/v1/plans/{state['id']}/redo", If_Match=f'"{state["version"]}"')
