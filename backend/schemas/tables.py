"""Answers on what there is, and what every error looks like."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .requests import NewPlan


class Place(BaseModel):
    """Characters `start … stop-1` of a text that was sent, or its end."""

    text: str
    start: int
    stop: int


class Problem(BaseModel):
    """What went wrong (RFC 9457), with a stable code and the remedy, and the place if a text can't be read."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    subject: str
    place: Place | None = None


class Health(BaseModel):
    """The answer of a server that is up."""

    status: Literal["ok"]
    version: str
    database: Literal["ok"]


class Entry(BaseModel):
    """An entry of one of the planner's tables."""

    name: str
    summary: str


class PresetEntry(Entry):
    """A preset, with the names of its open axes, and the targets that it computes again in backward."""

    axes: list[str]
    recompute: list[str]


class DeviceEntry(Entry):
    """A device type."""

    memory_bytes: float
    node_devices: int


class Registry(BaseModel):
    """What this installation knows: the planner's tables, for menus and help."""

    version: str
    torch: bool
    operators: list[Entry]
    collectives: list[Entry]
    presets: list[PresetEntry]
    devices: list[DeviceEntry]
    precisions: list[str]
    dtypes: list[str]
    exporters: list[Entry]


class Model(BaseModel):
    """A model; `id` is its name if it comes along, else `sha256-` and the digest of its content.

    `longest_seq` is how many tokens a sequence may have at most, 0 where there is no such limit.
    `symbols` holds `B` and `S` if a plan may choose the samples of a microbatch and the tokens of a sequence; `fixed`
    has a sentence on each that the model fixes. `group` is the kind of model, empty for imported ones; `start` a plan
    to start from, of those that come along.
    """

    id: str
    name: str
    architecture: str
    layers: int
    hidden: int
    parameters: int
    longest_seq: int
    symbols: list[str]
    fixed: list[str]
    builtin: bool
    group: str
    start: NewPlan | None


class Cluster(BaseModel):
    """A cluster: nodes × devices per node - device."""

    name: str
    devices: int
    device: str
    memory_bytes: float
