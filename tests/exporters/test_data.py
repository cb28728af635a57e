"""Synthetic inputs: what each kind holds, and that microbatches and shards are parts of one batch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from planner.exporters.runtime.data import Feed, local_batch, microbatch, share, synthetic_batch
from planner.exporters.runtime.mesh import Mesh


def feed(name: str, shape: tuple[int, ...], kind: str, **rest: Any) -> Feed:
    rest = {"samples": 0} | rest
    return Feed(name=name, shape=shape, dtype=rest.pop("dtype", "compute"), layout=f"[{', '.join('-' * len(shape))}]",
                kind=kind, **rest)  # fmt: skip


TOKENS = feed("tokens", (6, 9), "integers", low=2, high=7, dtype="int64")
LABELS = feed("labels", (6, 9), "next", next_of="tokens", ignored=-100, dtype="int64")


def test_labels_are_the_next_tokens_and_end_after_different_lengths() -> None:
    tokens, labels = synthetic_batch(3, (TOKENS, LABELS), seed=1)
    assert tokens.min() >= 2
    assert tokens.max() < 7
    valid = labels != -100
    assert torch.equal(labels[:, :-1][valid[:, :-1]], tokens[:, 1:][valid[:, :-1]])
    lengths = valid.sum(1)
    assert len(set(lengths.tolist())) > 1
    assert torch.equal(valid, torch.arange(9) < lengths[:, None])


def test_kinds_hold_what_they_say() -> None:
    feeds = (
        feed("noise", (50, 40), "normal"), feed("time", (5000,), "uniform", low=-2.0, high=3.0),
        feed("mask", (40, 12), "mask", dtype="bool"), feed("classes", (30, 4), "one_hot"),
        feed("flag", (), "mask", dtype="bool", samples=None),
    )  # fmt: skip
    noise, time, mask, classes, flag = synthetic_batch(0, feeds, seed=0)
    assert abs(noise.mean()) < 0.1
    assert abs(noise.std() - 1) < 0.1
    assert (time.min() >= -2) & (time.max() <= 3) & (abs(time.mean() - 0.5) < 0.1)
    assert mask[:, 0].all()
    assert set(mask.unique().tolist()) == {0, 1}
    assert (mask.diff(dim=1) <= 0).all()
    assert torch.equal(classes.sum(1), torch.ones(30, dtype=torch.float64))
    assert flag.shape == ()
    assert flag


def test_every_step_and_seed_draws_anew() -> None:
    first, again, step, seed = (synthetic_batch(s, (TOKENS,), seed=d)[0] for s, d in ((0, 0), (0, 0), (1, 0), (0, 1)))
    assert torch.equal(first, again)
    assert not torch.equal(first, step)
    assert not torch.equal(first, seed)


def test_microbatches_are_parts_and_what_has_no_samples_comes_whole() -> None:
    table = feed("table", (3, 2), "normal", samples=None)
    across = feed("across", (2, 6), "normal", samples=1)
    feeds = (TOKENS, LABELS, table, across)
    batch = synthetic_batch(0, feeds, seed=0)
    parts = [microbatch(batch, feeds, index, 3) for index in range(3)]
    for position, dim in ((0, 0), (1, 0), (3, 1)):
        assert torch.equal(torch.cat([part[position] for part in parts], dim), batch[position])
    assert all(torch.equal(part[2], batch[2]) for part in parts)
    shares = [share(batch, part, feeds, 3) for part in parts]
    valid = [(part[1] != -100).sum().item() for part in parts]
    assert shares == [count / sum(valid) for count in valid]
    assert share(batch[:1], parts[0][:1], feeds[:1], 3) == 1 / 3


@pytest.mark.parametrize(
    ("compute", "dtypes"),
    [("float32", ["float32", "float32", "int64"]), ("float64", ["float64", "float64", "int64"]),
     ("bfloat16", ["bfloat16", "float32", "int64"])],
)  # fmt: skip
def test_numbers_are_of_the_type_that_the_model_computes_in(compute: str, dtypes: list[str]) -> None:
    feeds = (feed("own", (2, 3), "normal"), feed("wide", (2, 3), "normal", dtype="float32"), TOKENS)
    batch = synthetic_batch(0, feeds, seed=0)
    given = local_batch(batch, feeds, Mesh({"whole": 1}), getattr(torch, compute))
    assert [str(x.dtype).removeprefix("torch.") for x in given] == dtypes
