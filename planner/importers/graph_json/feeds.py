"""Reads what the inputs of a model are fed with."""

from __future__ import annotations

from ...core.graph import Block, Feed
from ...errors import ModelError
from ..entries import Entry

_OPTIONAL = ("low", "high", "ignored", "next_of")
_MAX_LABEL = 1 << 53


def read_feeds(entry: Entry, root: Block) -> tuple[Feed, ...]:
    """Return the feeds of a root block; where some are given, each input has one, in the order of the inputs."""
    feeds = tuple(_feed(item) for item in entry.items())
    inputs = [value.name for value in root.inputs]
    if feeds and [feed.name for feed in feeds] != inputs:
        entry.refuse(
            f"are of {', '.join(feed.name for feed in feeds)}, and the inputs are {', '.join(inputs)}",
            "Give one feed an input, in their order.", code="model.graph-name",
        )  # fmt: skip
    for feed, item in zip(feeds, entry.items(), strict=True):
        if feed.next_of and feed.next_of not in inputs:
            item.refuse(f"is the next of {feed.next_of!r}, no input", "Name an input.", code="model.graph-name")
    return feeds


def _feed(entry: Entry) -> Feed:
    members = entry.members(("name", "kind"), _OPTIONAL)
    try:
        return Feed(
            name=members["name"].name(), kind=members["kind"].text(),
            **{key: members[key].number() for key in ("low", "high") if key in members},
            ignored=members["ignored"].integer(-_MAX_LABEL, _MAX_LABEL) if "ignored" in members else None,
            next_of=members["next_of"].name() if "next_of" in members else "",
        )  # fmt: skip
    except ModelError as problem:
        if problem.code != "model.feed":
            raise
        entry.refuse(f"is no feed: {problem.diagnostic.message}", problem.diagnostic.hint)
