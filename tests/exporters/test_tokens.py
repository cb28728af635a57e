"""Files of tokens: samples do not overlap, epochs are permutations, and batches depend on the position alone."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

from planner.exporters.runtime.data import Feed
from planner.exporters.runtime.tokens import TokenError, TokenFiles, shuffled, token_feeds

LENGTH = 4


def feed(name: str, kind: str, **rest: object) -> Feed:
    given = {"shape": (3, LENGTH), "dtype": "int64", "layout": "[-, -]", "samples": 0} | rest
    return Feed(name=name, kind=kind, **given)  # type: ignore[arg-type]


TOKENS = feed("tokens", "integers", high=1000)
LABELS = feed("labels", "next", next_of="tokens", ignored=-100)


def written(path: Path, tokens: list[int], letter: str) -> str:
    path.write_bytes(struct.pack(f"<{len(tokens)}{letter}", *tokens))
    return str(path)


@pytest.fixture(params=[("uint16", "H"), ("uint32", "I")], ids=lambda pair: pair[0])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> TokenFiles:
    """Files of 30, 0, 5, 4 and 17 tokens, the first of which is the thousands' place."""
    dtype, letter = request.param
    sizes = (30, 0, 5, 4, 17)
    paths = [written(tmp_path / f"{n}.bin", [100 * n + i for i in range(size)], letter) for n, size in enumerate(sizes)]
    return TokenFiles(paths, dtype=dtype, length=LENGTH, seed=1)


def test_samples_lie_one_after_the_other_and_end_with_the_next_token(files: TokenFiles) -> None:
    firsts = [100 * n + 4 * i for n, count in ((0, 7), (2, 1), (4, 4)) for i in range(count)]
    assert files.count == len(firsts)
    assert [files.sample(i, 0, 5).tolist() for i in range(files.count)] == [list(range(f, f + 5)) for f in firsts]


def test_an_epoch_takes_each_sample_once_and_the_next_one_in_another_order(files: TokenFiles) -> None:
    taken = [tuple(row) for row in files.take((0, 3 * files.count), (0, 5)).tolist()]
    every = {tuple(files.sample(i, 0, 5).tolist()) for i in range(files.count)}
    epochs = [taken[start : start + files.count] for start in range(0, len(taken), files.count)]
    assert [set(epoch) for epoch in epochs] == [every] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert epochs[0] != sorted(epochs[0])


def test_how_a_run_is_cut_into_steps_does_not_matter(files: TokenFiles) -> None:
    whole = files.take((0, 30), (0, 5))
    assert torch.equal(torch.cat([files.take(range_, (0, 5)) for range_ in ((0, 7), (7, 8), (8, 30))]), whole)
    assert torch.equal(torch.cat([files.take((0, 30), places) for places in ((0, 1), (1, 1), (1, 5))], 1), whole)
    assert files.take((3, 3), (0, 5)).shape == (0, 5)


def test_labels_are_the_next_tokens(files: TokenFiles) -> None:
    tokens, labels = (x.to("cpu") for x in files.batch(5, (TOKENS, LABELS)))
    assert torch.equal(labels, tokens + 1)
    assert torch.equal(files.batch(5, (LABELS, TOKENS))[0].to("cpu"), labels)
    assert tokens.dtype == torch.int64
    assert files.batch(5, (TOKENS,))[0].shape == (3, LENGTH)


def test_another_seed_gives_another_order(files: TokenFiles) -> None:
    other = TokenFiles(files.paths, dtype=str(files.files[0].dtype).removeprefix("torch."), length=LENGTH, seed=2)
    assert not torch.equal(other.take((0, files.count), (0, 5)), files.take((0, files.count), (0, 5)))


def test_large_tokens_come_through(tmp_path: Path) -> None:
    big = [2**16 - 1, 2**15, 0, 1, 7]
    assert (
        TokenFiles([written(tmp_path / "a", big, "H")], dtype="uint16", length=4, seed=0).sample(0, 0, 5).tolist()
        == big
    )
    big = [2**32 - 1, 2**31, 0, 1, 7]
    assert (
        TokenFiles([written(tmp_path / "b", big, "I")], dtype="uint32", length=4, seed=0).sample(0, 0, 5).tolist()
        == big
    )


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 1000])
def test_shuffling_is_a_permutation(count: int) -> None:
    assert sorted(shuffled(i, count, 3, 0) for i in range(count)) == list(range(count))


def test_every_place_is_about_as_likely() -> None:
    """Of 4,000 permutations of 5, each place is taken by each index about 800 times: 5 deviations are 126."""
    found = Counter((i, shuffled(i, 5, seed, 0)) for seed in range(4000) for i in range(5))
    assert len(found) == 25
    assert all(abs(times - 800) < 127 for times in found.values())


def test_a_large_set_needs_no_table() -> None:
    places = {shuffled(i, 10**15, 0, 0) for i in range(1000)}
    assert len(places) == 1000
    assert max(places) < 10**15
    assert max(places) > 9 * 10**14


def test_what_files_do_not_hold_is_refused(tmp_path: Path) -> None:
    ten = written(tmp_path / "ten.bin", list(range(10)), "H")
    with pytest.raises(ValueError, match=r"ten\.bin: not one sample of 10 tokens"):
        TokenFiles([ten], dtype="uint16", length=10, seed=0)
    (tmp_path / "odd.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match=r"odd\.bin: 3 bytes are no whole number of uint16"):
        TokenFiles([str(tmp_path / "odd.bin")], dtype="uint16", length=1, seed=0)
    with pytest.raises(ValueError, match="tokens are uint16 or uint32, not int8"):
        TokenFiles([ten], dtype="int8", length=1, seed=0)
    files = TokenFiles([ten], dtype="uint16", length=LENGTH, seed=0)
    with pytest.raises(
        TokenError, match="there is the token 7, but the model knows 5, from 0 on; is --data-type right"
    ):
        files.batch(0, (feed("tokens", "integers", high=5),))[0].to("cpu")


@pytest.mark.parametrize("other", [feed("pixels", "normal"), feed("mask", "mask"), feed("decoder", "integers", high=9)])
def test_models_that_take_more_than_tokens_are_refused(other: Feed) -> None:
    assert token_feeds((TOKENS, LABELS)) == (TOKENS, LABELS)
    assert token_feeds((TOKENS,)) == (TOKENS, None)
    with pytest.raises(ValueError, match=f"can't feed {other.name}"):
        token_feeds((TOKENS, LABELS, other))
    with pytest.raises(ValueError, match="can't feed x"):
        token_feeds((feed("x", "normal"),))
