"""Walks a program and turns each call into nodes by its row of a table; a call without one becomes `unknown`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from ....core.symbol import Polynomial, Size
from ....errors import LayoutError, ModelError, RuleError
from ...builder import BlockBuilder
from ..program import Buffer, Call, Program, reads
from .complex import apart, is_complex
from .flat import Flat
from .initial import with_initial
from .names import named
from .site import INTEGERS, Empty, Held, Number, Pair, Row, Site, UnloweredError
from .unknown import unknown

MOST_VALUES = 1 << 16
"""Elements of the largest buffer whose values a graph holds."""


def lowered(program: Program, targets: Mapping[str, Row]) -> Flat:
    """Return the operators of a program; see `lower`."""
    _check_sizes(program)
    work = _Lowering(program, targets)
    for call in program.calls:
        work.add(call)
    outputs = tuple(work.output(name) for name in program.outputs[:1])
    logits = work.held.get(program.logits, "")
    frozen = frozenset(weight.path for weight in program.weights if not weight.trainable)
    return named(with_initial(work.build.block(*outputs), frozen), logits if isinstance(logits, str) else "", program)


def _check_sizes(program: Program) -> None:
    """Refuse sizes of other symbols than those of the inputs."""
    known = {name for given in program.inputs for size in given.meta.shape for name in _symbols(size)}
    for call in program.calls:
        for size in (size for meta in call.results for size in meta.shape):
            if not _symbols(size) <= known:
                raise ModelError(
                    "model.size-data",
                    f"In {call.module or 'the model'}, {call.target} gives a tensor of a size {size} that depends on "
                    f"what the inputs hold{f' ({call.source})' if call.source else ''}.",
                    "Write it with sizes that are known, e.g. with slots and a mask.", subject=call.module,
                )  # fmt: skip


def _symbols(size: Size) -> set[str]:
    return {name for names, _ in Polynomial.of(size).terms for name in names}


@dataclass(slots=True)
class _Lowering:
    program: Program
    targets: Mapping[str, Row]
    build: BlockBuilder = field(default_factory=BlockBuilder)
    held: dict[str, Held] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        program = self.program
        self.read = {name for call in program.calls for name in reads(call)} | set(program.outputs)
        for given in program.inputs:
            self.held[given.name] = self.build.input(given.name, given.meta)
        for weight in program.weights:
            self.held[weight.name] = self.build.parameter(weight.path, weight.meta.shape, dtype=weight.meta.dtype)
        for buffer in program.buffers:
            if buffer.name in self.read:
                self.held[buffer.name] = self._buffer(buffer)

    def _buffer(self, buffer: Buffer) -> Held:
        """Return a buffer: a number, a constant, or what is too large to be written down as a tensor that is given."""
        shape = buffer.meta.shape
        large = prod(size for size in shape if isinstance(size, int)) > MOST_VALUES
        if large and buffer.meta.dtype not in INTEGERS:
            return self.build.parameter(buffer.path, shape, "given", dtype=buffer.meta.dtype)
        if buffer.values is None or large:
            raise ModelError(
                "model.buffer-values",
                f"The values of the buffer {buffer.path}, a {buffer.meta}, are not known, or too many.",
                f"Trace the module with its buffers on the CPU; masks and indices may have {MOST_VALUES:,} elements.",
                subject=buffer.path,
            )  # fmt: skip
        if not buffer.meta.shape:
            return Number(value=buffer.values[0], dtype=buffer.meta.dtype)
        path, _, name = buffer.path.rpartition(".")
        call = Call(name=name, target="buffer", arguments=(), results=(buffer.meta,), stack=((path, ""),))
        site = Site(call=call, build=self.build, held=self.held, used=frozenset({0}))
        if len(set(buffer.values)) == 1:
            return site.full(buffer.meta.shape, buffer.values[0], buffer.meta.dtype)
        return site.node("constant", values=buffer.values, sizes=", ".join(map(str, buffer.meta.shape)),
                         dtype=buffer.meta.dtype)  # fmt: skip

    def add(self, call: Call) -> None:
        """Add the nodes of a call; what its row made before it gave up is taken back."""
        if all(0 in meta.shape for meta in call.results):
            self.held |= {call.result(k): Empty(meta=meta) for k, meta in enumerate(call.results)}
            return
        used = frozenset(k for k in range(len(call.results)) if call.result(k) in self.read)
        site = Site(call=call, build=self.build, held=self.held, used=used)
        mark = self.build.mark()
        try:
            if call.target not in self.targets:
                raise UnloweredError("no operator is known for it")
            row = self.targets[call.target]
            made = apart(site, row) if is_complex(call, self.held) else row(site)
            made = (made,) if isinstance(made, str | Number | Empty | Pair) else tuple(made)
            made = tuple(self._checked(site, k, value) for k, value in enumerate(made))
        except (UnloweredError, RuleError, LayoutError) as error:
            self.build.rewind(mark)
            made = unknown(site, str(error).rstrip("."))
        self.held |= {call.result(k): value for k, value in enumerate(made)}

    def _checked(self, site: Site, index: int, value: Held) -> Held:
        """Return a result in the element type that the program says; its shape has to be the program's."""
        if index not in site.used or not isinstance(value, str):
            return value
        asked, made = site.call.results[index], self.build.meta(value)
        if made.shape != asked.shape:
            raise UnloweredError(f"its result would be {made}, not {asked}")
        # A loss is computed in float32 whatever the model's type; a scalar is promoted where it is used.
        if made.dtype == asked.dtype or (not made.shape and not {made.dtype, asked.dtype} & {*INTEGERS}):
            return value
        return site.cast(value, asked.dtype)

    def output(self, name: str) -> str:
        """Return an output of the program as a value of the block."""
        held = self.held[name]
        if not isinstance(held, str):
            raise ModelError("model.loss-constant", "The loss of the model depends on none of its inputs.",
                             "Return a loss that does.")  # fmt: skip
        return held
