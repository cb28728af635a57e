"""Opens the database and brings it up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import StaticPool, create_engine, event, make_url, text
from sqlalchemy.orm import sessionmaker

MIGRATIONS = Path(__file__).parents[1] / "migrations"


class Database:
    """An open database.

    Parameters
    ----------
    url
        SQLAlchemy's address of it. `sqlite://` is one in memory, gone with this object.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        options: dict[str, Any] = {"pool_pre_ping": True}
        if parsed.get_backend_name() == "sqlite":
            options = {"connect_args": {"check_same_thread": False, "timeout": 10}}
            if not parsed.database or parsed.database == ":memory:":
                # A database in memory belongs to one connection.
                options["poolclass"] = StaticPool
            else:
                Path(parsed.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.engine = create_engine(parsed, **options)
        if parsed.get_backend_name() == "sqlite":
            event.listen(self.engine, "connect", _prepare)
        self.session = sessionmaker(self.engine, expire_on_commit=False)
        self._upgrade()

    def check(self) -> None:
        """Raise SQLAlchemyError if the database does not answer."""
        with self.session() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _upgrade(self) -> None:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        with self.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _prepare(connection: Any, _record: object) -> None:
    """Set up a SQLite connection: what is committed survives a kill and a power cut."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
