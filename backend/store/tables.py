"""The tables. `backend/migrations` brings a database to this shape; a test holds the two equal.

```text
models   (id, …)                 content of every model that a plan uses or that was imported
plans    (id, model_id, …)       name, version, and where in its history a plan stands
history  (plan_id, position, …)  the decisions after each edit, with the edit's label; position 0 is the beginning
```
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import DateTime, Double, ForeignKey, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Base of the tables."""


class ModelRow(Base):
    """The content of a model, once however many plans use it; `listed` if it was imported by name."""

    __tablename__ = "models"

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(200))
    content: Mapped[str] = mapped_column(Text)
    listed: Mapped[bool]
    created: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class PlanRow(Base):
    """A plan; the model's name is its own, since plan files may name the same content differently.

    The numbers are those of its version, so that a list of plans evaluates nothing.
    """

    __tablename__ = "plans"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    model_name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int]
    position: Mapped[int]
    updated: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    step_time_s: Mapped[float] = mapped_column(Double)
    memory_bytes: Mapped[float] = mapped_column(Double)
    capacity_bytes: Mapped[float] = mapped_column(Double)


class HistoryRow(Base):
    """The decisions of a plan after one edit, as a plan file without the model."""

    __tablename__ = "history"

    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(String(200))
    decisions: Mapped[str] = mapped_column(Text)
