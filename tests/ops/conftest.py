"""Tiny tensors on one thread: more threads only wait for each other."""

import contextlib

import pytest

with contextlib.suppress(ImportError):
    import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> None:
    """Run torch on one thread."""
    torch.set_num_threads(1)
