"""The model: values, nodes, parameters, repeated blocks and the module tree.

```text
ModelGraph ── root Block ── Node | Repeat ── Block ── Node
```

A value is named like the node that makes it, `name:k` for result k > 0. In a repeated block, names hold a token where
the layer index stands (`core.layers`): `*`, or the range of layers where the list has others; parameters likewise.

Invariants (checked by `planner.verify`): acyclic; each operand is an input, a parameter or an earlier result of its
block; a `Repeat` carries its first inputs (`carried`) from iteration to iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ModelError
from .layers import Layers, list_of, templates
from .rule import ShardingRule
from .stage import plain
from .symbol import Polynomial
from .tensor import TensorMeta

Attribute = int | float | str | bool | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A named tensor."""

    name: str
    meta: TensorMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a module, named by its path, with a token for the layer index in a repeated block.

    Parameters
    ----------
    initial
        What it starts with: `normal`, `ones` or `zeros`; `frozen` for one that is not trained, `given` for a tensor
        that the model holds without calling it a parameter, such as a table of positions.
    """

    name: str
    meta: TensorMeta
    initial: str = "normal"

    @property
    def trainable(self) -> bool:
        """Whether it gets a gradient, and is updated."""
        return self.initial not in {"frozen", "given"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator.

    Parameters
    ----------
    name
        Module path, plus `/role` where a module has several operators.
    op
        Key of the table `OPS`.
    operands
        Names of the values and parameters that it reads, in the operator's order.
    results
        Values that it makes.
    attributes
        Sorted pairs, such as `("eps", 1e-5)`.
    rule
        The operator's factor line on these shapes.
    module
        Path of the module that it belongs to.
    origin
        Name of the composite node that it is a part of; empty otherwise.
    """

    name: str
    op: str
    operands: tuple[str, ...]
    results: tuple[Value, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    rule: ShardingRule
    module: str
    origin: str = ""

    def attribute(self, name: str) -> Attribute:
        """Return one attribute; KeyError if the node has none of this name."""
        return dict(self.attributes)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module path and the class that it has in the user's code."""

    path: str
    class_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A sequence of nodes with named inputs and outputs."""

    inputs: tuple[Value, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Node | Repeat, ...]
    outputs: tuple[str, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of this block, without those of repeated blocks in it."""
        return tuple(item for item in self.body if isinstance(item, Node))

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """The repeated blocks in this block."""
        return tuple(item for item in self.body if isinstance(item, Repeat))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A block that runs `count` times, e.g. the layers of a transformer.

    Parameters
    ----------
    name
        Module path of the list of layers, `model.layers`; with the range of them that it runs through,
        `model.layers.3-60`, where the list has others or an iteration runs several.
    count
        Number of iterations.
    block
        One iteration: one layer, or several that alternate. Its first `len(results)` inputs are *carried*: the outputs
        of an iteration are these inputs of the next. Its further inputs are *captured*: the same outer value, input or
        parameter in every iteration.
    operands
        Outer values for the block's inputs: what is carried into the first iteration, then what is captured.
    results
        Outer values for the outputs of the last iteration.
    """

    name: str
    count: int
    block: Block
    operands: tuple[str, ...]
    results: tuple[Value, ...]

    @property
    def period(self) -> int:
        """Number of layers of the list that an iteration runs."""
        layers = list_of(self.name)[1]
        return 1 if layers is None else layers.count // self.count

    @property
    def templates(self) -> tuple[str, ...]:
        """Paths of the layers of an iteration, with tokens for their indices."""
        return templates(self.name, self.period)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where a graph came from: enough to load it again and to notice that it changed.

    Parameters
    ----------
    name
        Zoo name or file name, for people.
    kind
        Key of the table `IMPORTERS`.
    digest
        SHA-256 of the canonical content.
    content
        The content itself as canonical JSON text, so that a plan file is complete.
    """

    name: str
    kind: str
    digest: str
    content: str = field(repr=False)


FEEDS = ("integers", "next", "normal", "uniform", "mask", "one_hot")
"""What an input may be fed with.

- `integers`: each from `low` to `high` - 1.
- `next`: at each place along the last dim, what the input `next_of` has one place later.
- `normal`: numbers of mean 0 and variance 1; `uniform`: numbers from `low` to `high`.
- `mask`: 1 in the first places of each row, at least one, and 0 in the others; a row is what one sample has along the
  last dim.
- `one_hot`: 1 at one place of the last dim, 0 at the others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What values an input of a model takes, so that synthetic data can be made of it.

    Parameters
    ----------
    name
        The input.
    kind
        One of `FEEDS`.
    low, high
        Bounds, where the kind has some.
    ignored
        Of labels: the value that stands for no target, such as -100; the last places of some rows take it. None for
        inputs that know no such value.
    next_of
        Of the kind `next`: the input whose next elements these are.

    Raises
    ------
    ModelError
        `model.feed` for an unknown kind, an empty range, or a `next_of` without the kind or the other way round.
    """

    name: str
    kind: str
    low: float = 0
    high: float = 1
    ignored: int | None = None
    next_of: str = ""

    def __post_init__(self) -> None:
        problem = ""
        if self.kind not in FEEDS:
            problem = f"can't be fed with {self.kind!r}"
        elif self.kind in {"integers", "uniform"} and not self.low < self.high:
            problem = f"takes no value: none is from {self.low:g} and below {self.high:g}"
        elif (self.kind == "next") != bool(self.next_of):
            problem = f"is fed with {self.kind!r}, but next_of is {self.next_of!r}"
        if problem:
            raise ModelError(
                "model.feed", f"Input {self.name} {problem}.", f"Kinds are {', '.join(FEEDS)}.", subject=self.name
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGraph:
    """A whole model with its loss.

    Parameters
    ----------
    root
        Block whose inputs are the model's inputs (`tokens`, `labels`) and whose first output is the scalar loss.
    modules
        Module tree as a list of paths, parents before children.
    logits
        Name of the value that holds the logits, for the memory report; may be empty.
    longest_seq
        Tokens that a sequence may have at most, where positions are learnt; 0 for any number.
    feeds
        What each input of the root is fed with, in the order of the inputs.
    fixed
        Sentences on what the model fixes of batch and sequence.
    stages
        Of a graph that was cut for a pipeline: the names of the root's items that each stage runs, in their order.
    """

    name: str
    source: ModelSource
    root: Block
    modules: tuple[Module, ...]
    logits: str = ""
    longest_seq: int = 0
    feeds: tuple[Feed, ...] = ()
    fixed: tuple[str, ...] = ()
    stages: tuple[tuple[str, ...], ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the sizes of the inputs are open in, sorted: of `B` and `S` those that the model has."""
        sizes = (size for value in self.root.inputs for size in value.meta.shape if isinstance(size, Polynomial))
        return tuple(sorted({name for size in sizes for names, _ in size.terms for name in names}))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The root, then the repeated blocks in it."""
        return tuple(block for _, block in self.counted_blocks)

    @property
    def counted_blocks(self) -> tuple[tuple[int, Block], ...]:
        """How often each of `blocks` runs, and the block."""
        return ((1, self.root), *((repeat.count, repeat.block) for repeat in self.root.repeats))

    @property
    def layer_count(self) -> int:
        """Number of layers in the lists through which repeats run, with those that stand for themselves."""
        lists = {list_of(repeat.name)[0]: repeat.count for repeat in self.root.repeats}
        total = 0
        for module in self.modules:
            path, _, token = module.path.rpartition(".")
            if path in lists:
                layers = Layers.parse(token)
                total += lists[path] if token == "*" else layers.count if layers else 0
        return total

    @property
    def parameter_count(self) -> int:
        """Number of numbers in all parameters, every layer counted, a shared parameter once."""
        return sum(
            count * _elements(p)
            for count, block in self.counted_blocks
            for p in block.parameters
            if p.initial != "given" and plain(p.name) == p.name
        )


def _elements(parameter: Parameter) -> int:
    total = 1
    for size in parameter.meta.shape:
        if not isinstance(size, int):
            raise TypeError(f"parameter {parameter.name} has the symbolic size {size}")
        total *= size
    return total
