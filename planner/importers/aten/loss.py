"""Gives a program its loss: an output that is one, or one that is added to the model's result.

```text
an output that is a scalar              → that output
logits [B, S, V] and labels [B, S]      → mean cross-entropy over the labels that are not -100
logits [B, C]    and labels [B]         → the same
anything else, and `loss="mse"`         → mean square of the difference from a `target` like the result
```

Files that were exported for use have no loss; a training plan needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...core.graph import Feed
from ...core.tensor import TensorMeta
from ...errors import ModelError
from .dtypes import FLOATING
from .program import Call, Input, Program, Ref

IGNORED = -100
_HINT = "Choose an output by name with `output` (--output), and a loss with `loss` (--loss)."


def give_loss(program: Program, *, output: str = "", loss: str = "") -> Program:
    """Return the program with its loss as the first output.

    Parameters
    ----------
    output
        Name, or number from 0, of the output that is the loss or that the loss is taken of; empty where there is only
        one that can be.
    loss
        A key of `LOSSES` to take of the output; empty to take a scalar as it is, and of others what fits.

    Raises
    ------
    ModelError
        `model.loss-output` when no output, or more than one, can be meant; `model.loss-unknown` for an unknown loss;
        `model.loss-shape` where it does not fit the output.
    """
    if loss and loss not in LOSSES:
        raise ModelError(
            "model.loss-unknown", f"There is no loss {loss!r}.", f"Known are {', '.join(LOSSES)}.", subject=loss
        )
    metas = _metas(program)
    chosen = _chosen(program, metas, output, loss)
    meta = metas[chosen]
    others = tuple(name for name in program.outputs if name != chosen)
    if not meta.shape and not loss:
        logits = program.logits or next((n for n in others if n in metas and len(metas[n].shape) > 1), "")
        return replace(program, outputs=(chosen, *others), logits=logits)
    return LOSSES[loss or "cross_entropy"](program, chosen, meta)


def _chosen(program: Program, metas: Mapping[str, TensorMeta], output: str, loss: str) -> str:
    found = [name for name in program.outputs if name in metas and metas[name].dtype in FLOATING]
    told = ", ".join(f"{i}: {name} {metas[name]}" for i, name in enumerate(program.outputs) if name in metas) or "none"
    if output:
        number = int(output) if output.isascii() and output.isdigit() and len(output) < 6 else -1
        name = program.outputs[number] if 0 <= number < len(program.outputs) else output
        if name not in found:
            raise ModelError(
                "model.loss-output", f"{program.name} has no output {output!r} of floating numbers; it has {told}.",
                _HINT, subject=output,
            )  # fmt: skip
        return name
    scalars = [name for name in found if not metas[name].shape]
    candidates = scalars if scalars and not loss else [name for name in found if metas[name].shape]
    if len(set(candidates)) != 1:
        raise ModelError(
            "model.loss-output", f"It is not clear which output of {program.name} is trained; it has {told}.", _HINT,
            subject=program.name,
        )  # fmt: skip
    return candidates[0]


def _cross_entropy(program: Program, output: str, meta: TensorMeta) -> Program:
    if len(meta.shape) not in {2, 3}:
        raise ModelError(
            "model.loss-shape", f"Output {output} of {program.name} is {meta}, which are no logits of classes.",
            "Give [B, S, V] or [B, C], or choose another loss: mse takes any shape.", subject=output,
        )  # fmt: skip
    labels = _free(program, "labels")
    label = Input(name=labels, meta=TensorMeta(meta.shape[:-1], "int64"))
    call = Call(
        name=_free(program, "loss"), target="fused.cross_entropy", arguments=(Ref(output), Ref(labels)),
        keywords=(("ignore_index", IGNORED),), results=(TensorMeta((), "float32"),),
    )  # fmt: skip
    same = [one.name for one in program.inputs if one.meta == label.meta]
    # Labels of a language model are its tokens, one place on.
    feeds = (Feed(name=labels, kind="next", next_of=same[0], ignored=IGNORED),) if len(same) == 1 else ()
    return replace(_with(program, label, call, output), feeds=(*program.feeds, *feeds))


def _mse(program: Program, output: str, meta: TensorMeta) -> Program:
    target = _free(program, "target")
    call = Call(
        name=_free(program, "loss"), target="aten.mse_loss.default", arguments=(Ref(output), Ref(target)),
        results=(TensorMeta((), meta.dtype),),
    )  # fmt: skip
    return _with(program, Input(name=target, meta=meta), call, output)


def _with(program: Program, given: Input, call: Call, output: str) -> Program:
    return replace(
        program, inputs=(*program.inputs, given), calls=(*program.calls, call), outputs=(call.name,), logits=output
    )


def _metas(program: Program) -> Mapping[str, TensorMeta]:
    held = {one.name: one.meta for one in program.inputs} | {one.name: one.meta for one in program.weights}
    held |= {one.name: one.meta for one in program.buffers}
    return held | {call.result(i): meta for call in program.calls for i, meta in enumerate(call.results)}


def _free(program: Program, name: str) -> str:
    taken = _metas(program)
    number = 1
    found = name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


LOSSES: Mapping[str, Callable[[Program, str, TensorMeta], Program]] = MappingProxyType(
    {"cross_entropy": _cross_entropy, "mse": _mse}
)
"""What can be taken of an output."""
