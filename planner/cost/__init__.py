"""Stages 5 and 7: what a training step costs, in numbers that open down to their inputs."""

from __future__ import annotations

from .buckets import bucket_calls
from .communication import leg_seconds, step_seconds
from .compute import node_seconds
from .evaluate import Priced, evaluate, price
from .least import least_exchange_seconds, least_seconds
from .pipeline import ONCE_A_RANK, Simulation, StagePrice, evaluate_pipeline, finding_of_batch, price_stages
from .rows import collective_rows
from .units import unit_times
from .work import model_flops

__all__ = [
    "ONCE_A_RANK",
    "Priced",
    "Simulation",
    "StagePrice",
    "bucket_calls",
    "collective_rows",
    "evaluate",
    "evaluate_pipeline",
    "finding_of_batch",
    "least_exchange_seconds",
    "least_seconds",
    "leg_seconds",
    "model_flops",
    "node_seconds",
    "price",
    "price_stages",
    "step_seconds",
    "unit_times",
]  # fmt: skip
