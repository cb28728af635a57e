"""The noun between a trace and a graph: ATen calls in order, with shapes, modules and source lines.

```text
Program ── Input | Weight | Buffer | Call ── Argument (Ref | Size | text | tuple …)
```

A value is named like the call that makes it, `name:k` for result k > 0. Sizes are polynomials of the symbols `B` and
`S`; calls that only compute sizes are not part of a program, their values stand in the arguments.

Invariants: calls come in an order in which each reads inputs, weights, buffers and earlier results only; names are
unique.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.graph import Feed
from ...core.symbol import Size
from ...core.tensor import TensorMeta


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Word:
    """An argument that torch writes as an object of its own: an element type, a device, a layout.

    Parameters
    ----------
    text
        As torch prints it without `torch.`, e.g. `float32`, `strided`, `cpu`.
    """

    text: str


Argument = Ref | Word | Size | float | bool | str | None | tuple["Argument", ...]
Member = tuple[str, str]
"""Path and class of a module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A tensor that the model is called with."""

    name: str
    meta: TensorMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter.

    Parameters
    ----------
    name
        Name of the value in the program.
    path
        Its path in the module tree; of a shared parameter the first one.
    trainable
        Whether it wants a gradient.
    """

    name: str
    path: str
    meta: TensorMeta
    trainable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tensor that the module holds and does not train, or a constant of its code.

    Parameters
    ----------
    values
        Its elements in row-major order; None where they are not known, or too many to keep.
    """

    name: str
    path: str
    meta: TensorMeta
    values: tuple[float, ...] | tuple[int, ...] | tuple[bool, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of an operator.

    Parameters
    ----------
    target
        The operator with its overload, e.g. `aten.linear.default`, or `fused.rms_norm` for what several calls were
        made into.
    arguments, keywords
        As the call has them; defaults that it leaves out are left out.
    results
        Shapes and element types of its results; empty for a call that makes no tensor.
    stack
        Modules that it runs in, from the outside in.
    source
        Line of the user's code, `file:line`; empty if it is not known.
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...] = ()
    results: tuple[TensorMeta, ...]
    stack: tuple[Member, ...] = ()
    source: str = ""

    @property
    def module(self) -> str:
        """Path of the innermost module; empty for the whole model."""
        return self.stack[-1][0] if self.stack else ""

    def keyword(self, name: str) -> Argument:
        """Return a keyword argument; None if the call has none of this name."""
        return dict(self.keywords).get(name)

    def result(self, index: int) -> str:
        """Return the name of a result."""
        return self.name if index == 0 else f"{self.name}:{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A traced model.

    Parameters
    ----------
    outputs
        Names of its results; the first is the loss.
    logits
        Name of the value that the loss is taken of; empty if that is not known.
    modules
        Path and class of every module, parents before children; the first is the whole, with an empty path.
    tied
        Pairs (path, path of the parameter that it shares).
    fixed
        Sentences on what the model fixes of batch and sequence, such as `The sequence length is 197.`
    feeds
        What is known of what the inputs are fed with.
    """

    name: str
    inputs: tuple[Input, ...]
    weights: tuple[Weight, ...]
    buffers: tuple[Buffer, ...]
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]
    logits: str = ""
    modules: tuple[Member, ...] = (("", "Model"),)
    tied: tuple[tuple[str, str], ...] = ()
    fixed: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()


def given(program: Program) -> dict[str, TensorMeta]:
    """Return the metas of what a program does not compute."""
    found = {value.name: value.meta for value in program.inputs}
    found |= {value.name: value.meta for value in program.weights}
    return found | {value.name: value.meta for value in program.buffers}


def refs(argument: Argument) -> tuple[str, ...]:
    """Return the names of the values that an argument uses."""
    if isinstance(argument, Ref):
        return (argument.name,)
    if isinstance(argument, tuple):
        return tuple(name for part in argument for name in refs(part))
    return ()


def reads(call: Call) -> tuple[str, ...]:
    """Return the names of all values that a call uses, in the order of its arguments."""
    return (*refs(call.arguments), *(name for _, value in call.keywords for name in refs(value)))
