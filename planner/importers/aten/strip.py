"""Takes out of a program what computes nothing, and what writes in place.

- Checks, dead calls, and casts, copies and views that change nothing go; their readers read what they read.
- A call that writes in place (`aten.div_.Tensor`) becomes the one that makes a new tensor; later readers of the tensor,
  of what it is a view of, and of other views of that, read the new elements.
- Sizes of views are written out, with none left open by -1.
- A parameter that several modules share stands once, under its first path.

A `detach` stays where something trainable is above it, since it stops the gradient there.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.tensor import TensorMeta
from .inplace import Writer
from .program import Argument, Call, Program, Ref, given, reads

CHECKS = ("aten._assert", "aten.sym_constrain", "aten._functional_assert", "aten.sym_size", "aten._local_scalar")
SAME = frozenset({
    "aten.alias.default", "aten.clone.default", "aten.contiguous.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default", "aten.positive.default", "aten.to.device", "aten.to.dtype",
    "aten.to.dtype_layout", "aten.to.other", "aten._to_copy.default", "aten.type_as.default", "aten.view.default",
    "aten.reshape.default", "aten._unsafe_view.default", "aten.view_as.default", "aten.expand.default",
    "aten.expand_as.default", "aten.slice.Tensor", "aten.narrow.default", "aten.flatten.using_ints",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.broadcast_to.default",
    "aten.constant_pad_nd.default", "aten.pad.default", "aten.repeat.default",
    "aten.unsafe_chunk.default", "aten.reshape_as.default", "aten.atleast_1d.default", "aten.resolve_conj.default",
    "aten.split_with_sizes.default", "aten.split.Tensor", "aten.chunk.default",
})  # fmt: skip
"""Calls that give their first argument back if the result has its shape and element type."""
SIZED = {
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.expand.default",
    "aten.broadcast_to.default",
}  # fmt: skip
"""Calls whose second argument is the shape of the result."""
DROPOUTS = {"aten.dropout.default": 2, "aten.feature_dropout.default": 2, "aten.native_dropout.default": 2}
"""Calls that do nothing without training, and the place of that argument."""


def strip(program: Program) -> Program:
    """Return a program that makes the same outputs, of calls that each make new tensors of new elements."""
    program = _shared(program)
    calls = tuple(call for call in program.calls if not call.target.startswith(CHECKS))
    writer = Writer(program)
    for call in calls:
        writer.add(call)
    program = replace(
        program, calls=tuple(writer.calls), outputs=tuple(writer.current(name) for name in program.outputs),
        logits=writer.current(program.logits) if program.logits else "",
    )  # fmt: skip
    return _live(_short(program))


def _shared(program: Program) -> Program:
    """Return a program in which a parameter with several paths is one weight."""
    names = {weight.path: weight.name for weight in program.weights}
    first = {names[path]: names[other] for path, other in program.tied if path in names and other in names}
    calls = tuple(_reading(call, first) for call in program.calls)
    return replace(program, calls=calls, weights=tuple(w for w in program.weights if w.name not in first))


def _short(program: Program) -> Program:
    """Return a program without the calls that give an argument back."""
    metas = given(program)
    trained = {weight.name for weight in program.weights if weight.trainable}
    instead: dict[str, str] = {}
    calls = []
    for before in program.calls:
        call = _reading(before, instead)
        first = call.arguments[0] if call.arguments else None
        if isinstance(first, Ref) and _gives_back(call, metas, trained):
            instead[call.name] = first.name
            continue
        metas |= {call.result(k): meta for k, meta in enumerate(call.results)}
        if trained & set(reads(call)) and call.target != "aten.detach.default":
            trained |= {call.result(k) for k in range(len(call.results))}
        calls.append(_tidy(call))
    outputs = tuple(instead.get(name, name) for name in program.outputs)
    return replace(
        program, calls=tuple(calls), outputs=outputs, logits=instead.get(program.logits, program.logits)
    )  # fmt: skip


def _gives_back(call: Call, metas: dict[str, TensorMeta], trained: set[str]) -> bool:
    first = call.arguments[0]
    assert isinstance(first, Ref)
    if call.target in DROPOUTS:
        place = DROPOUTS[call.target]
        train = call.arguments[place] if len(call.arguments) > place else call.keyword("train")
        return train is False or call.arguments[1] in (0, 0.0)
    if call.target == "aten.detach.default":
        return first.name not in trained
    return call.target in SAME and len(call.results) == 1 and call.results[0] == metas[first.name]


def _tidy(call: Call) -> Call:
    """Return a view with the sizes of its result; batch norm without the running statistics that it only writes."""
    if call.target == "aten.batch_norm.default" and call.arguments[5] is True:
        return replace(call, arguments=(*call.arguments[:3], None, None, *call.arguments[5:]))
    if call.target not in SIZED:
        return call
    return replace(call, arguments=(call.arguments[0], call.results[0].shape), keywords=())


def _reading(call: Call, instead: dict[str, str]) -> Call:
    if not any(name in instead for name in reads(call)):
        return call

    def change(argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(instead.get(argument.name, argument.name))
        return tuple(map(change, argument)) if isinstance(argument, tuple) else argument

    return replace(
        call, arguments=tuple(map(change, call.arguments)), keywords=tuple((k, change(v)) for k, v in call.keywords)
    )


def _live(program: Program) -> Program:
    """Return a program without the calls that no output depends on."""
    needed = {*program.outputs, program.logits}
    kept = []
    for call in reversed(program.calls):
        if any(call.result(k) in needed for k in range(max(1, len(call.results)))):
            kept.append(call)
            needed |= set(reads(call))
    return replace(
        program, calls=tuple(reversed(kept)), buffers=tuple(b for b in program.buffers if b.name in needed)
    )  # fmt: skip
