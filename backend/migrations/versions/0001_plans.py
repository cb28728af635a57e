"""Models, plans and their history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "models",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(200), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("listed", sa.Boolean(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("model_id", sa.String(80), sa.ForeignKey("models.id"), nullable=False),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.Column("step_time_s", sa.Double(), nullable=False),
        sa.Column("memory_bytes", sa.Double(), nullable=False),
        sa.Column("capacity_bytes", sa.Double(), nullable=False),
    )
    op.create_index("ix_plans_updated", "plans", ["updated"])
    op.create_table(
        "history",
        sa.Column("plan_id", sa.String(32), sa.ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("decisions", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("history", "plans", "models"):
        op.drop_table(table)
