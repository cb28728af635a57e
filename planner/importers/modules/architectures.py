"""The table `ARCHITECTURES`: what each module is made with, what it takes, and what that is fed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...core.graph import Feed
from ..feeds import language_feeds

Argument = int | tuple[int, ...]
Arguments = Mapping[str, Argument]
Spec = tuple[tuple[int | str, ...], str]
"""Shape, with `B` for the number of samples, and element type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One module and its loss.

    Parameters
    ----------
    summary
        What it is, in a line.
    file, class_name
        Where in this folder the module is. Called with the arguments, except those of `examples`, and then with the
        inputs in order, it returns the loss and what the loss is taken of.
    examples
        Arguments that shape the inputs alone.
    tiny
        Arguments of a small one: all that there are.
    inputs
        Arguments → what it takes, by name.
    feeds
        Arguments → what inputs hold, where the graph does not tell.
    """

    name: str
    summary: str
    file: str
    class_name: str
    examples: tuple[str, ...] = ()
    tiny: Arguments
    inputs: Callable[[Arguments], Mapping[str, Spec]]
    feeds: Callable[[Arguments], tuple[Feed, ...]]


def number(arguments: Arguments, name: str) -> int:
    """Return an argument that is one number."""
    value = arguments[name]
    assert isinstance(value, int)
    return value


def numbers(arguments: Arguments, name: str) -> tuple[int, ...]:
    """Return an argument that is a list of numbers."""
    value = arguments[name]
    assert isinstance(value, tuple)
    return value


def _images(arguments: Arguments) -> Mapping[str, Spec]:
    size = number(arguments, "image")
    return {"images": (("B", 3, size, size), "compute"), "labels": (("B",), "int64")}


def _latents(arguments: Arguments) -> tuple[int | str, ...]:
    return ("B", number(arguments, "channels"), number(arguments, "size"), number(arguments, "size"))


def _texts(arguments: Arguments) -> Mapping[str, Spec]:
    latents = _latents(arguments)
    text = ("B", number(arguments, "text"), number(arguments, "context"))
    return {
        "latents": (latents, "compute"), "timesteps": (("B",), "int64"), "context": (text, "compute"),
        "noise": (latents, "compute"),
    }  # fmt: skip


def _classes(arguments: Arguments) -> Mapping[str, Spec]:
    latents = _latents(arguments)
    return {
        "latents": (latents, "compute"), "timesteps": (("B",), "int64"), "classes": (("B",), "int64"),
        "noise": (latents, "compute"),
    }  # fmt: skip


def _clicks(arguments: Arguments) -> Mapping[str, Spec]:
    return {
        "numbers": (("B", number(arguments, "dense")), "compute"),
        "ids": (("B", sum(numbers(arguments, "bags"))), "int64"),
        "labels": (("B",), "compute"),
    }


def _tokens(arguments: Arguments) -> Mapping[str, Spec]:
    shape = ("B", number(arguments, "seq"))
    return {"tokens": (shape, "int64"), "labels": (shape, "int64")}


TIMESTEPS = Feed(name="timesteps", kind="integers", high=1000)

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({
    architecture.name: architecture
    for architecture in (
        Architecture(
            name="dit", summary="diffusion transformer", file="dit", class_name="DiT",
            tiny={"size": 8, "patch": 2, "channels": 4, "width": 32, "depth": 2, "heads": 4, "ratio": 2, "classes": 10},
            inputs=_classes, feeds=lambda given: (TIMESTEPS,),
        ),
        Architecture(
            name="dlrm", summary="embedding bags, dot interactions, MLPs and a wide linear part", file="dlrm",
            class_name="DLRM",
            tiny={"rows": (40, 12, 30), "bags": (3, 1, 2), "width": 8, "dense": 4, "bottom": (16,), "top": (24, 16)},
            inputs=_clicks,
            # One input holds the ids of all features, so they all come from the rows that the smallest table has.
            feeds=lambda given: (
                Feed(name="ids", kind="integers", high=min(numbers(given, "rows"))),
                Feed(name="labels", kind="uniform"),
            ),
        ),
        Architecture(
            name="mamba2", summary="selective state spaces, chunk by chunk", file="mamba", class_name="Mamba2",
            examples=("seq",),
            tiny={"seq": 12, "vocab": 40, "width": 16, "depth": 2, "heads": 4, "head_dim": 8, "state": 6, "window": 3,
                  "chunk": 4},
            inputs=_tokens, feeds=lambda given: language_feeds(number(given, "vocab")),
        ),
        Architecture(
            name="resnet", summary="residual convolutions in bottleneck blocks", file="resnet", class_name="ResNet",
            examples=("image",),
            tiny={"image": 32, "blocks": (2, 2), "width": 8, "classes": 10}, inputs=_images, feeds=lambda given: (),
        ),
        Architecture(
            name="unet", summary="U-Net that predicts the noise in latent images", file="unet", class_name="UNet",
            examples=("size", "text"),
            tiny={"size": 8, "text": 5, "channels": 4, "widths": (8, 16), "blocks": 1, "context": 12, "heads": 2,
                  "groups": 4},
            inputs=_texts, feeds=lambda given: (TIMESTEPS,),
        ),
    )
})  # fmt: skip
