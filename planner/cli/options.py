"""The options that say which plan is meant; `takes_plan` gives them to a command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from ..presets import PRESETS

# The table of forms would load numpy, which most commands do without.
Form = Annotated[str, typer.Option("--form", metavar="FORM", help="Form of the code: explicit, native.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Which model or plan, and the edits on it; what is None is left as the plan has it, or to a default."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_PLAN", help="A name that `shardwright models` lists, a config.json, or a plan file."
        ),
    ]
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Nodes × devices a node - device, e.g. 2x8-h100-sxm. [default: nodes of 8 H100]"
        ),
    ] = None
    mesh: Annotated[
        str | None, typer.Option(metavar="AXES", help="Mesh axes with sizes, e.g. dp:2,tp:4; neighbours last.")
    ] = None
    preset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:AXES",
            help=f"One of {', '.join(PRESETS)}, over axes where it takes any, e.g. megatron:tp or zero3:dp+cp. "
            "Repeatable.",
        ),
    ] = None
    shard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'TARGET FACTOR=AXES…'",
            help="Shard factors of operators, e.g. 'layers.*.mlp.gate_proj n=tp batch=dp'; n=- keeps n whole. Or give "
            "counts as MindSpore does: 'lm_head ((1, 1, 1), (8, 1))'. Repeatable.",
        ),
    ] = None
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'TARGET [gradient|optimizer] WHERE [regather|deferred|host]'",
            help="Where parameters are stored: further over axes ('* dp regather') or as a layout "
            "('lm_head.weight [tp, -]'); or their gradients ('* gradient deferred') or optimizer state "
            "('* optimizer dp', or '* optimizer host' to keep it in the host's memory). Repeatable.",
        ),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'TARGET AXIS OPERANDS'",
            help="Keep results Partial over an axis, carried by operands, e.g. 'residual_mlp tp 0,1'. Repeatable.",
        ),
    ] = None
    recompute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'TARGET [off]'",
            help="Compute modules or operators again in backward instead of keeping what they make, e.g. 'layers.*' or "
            "'self_attn'; off takes something out. Repeatable.",
        ),
    ] = None
    gradients: Annotated[
        str | None,
        typer.Option(
            metavar="'WORDS'",
            help="How gradients are reduced: auto, size:25MiB or index:8,16 (which share a collective), overlap, sum, "
            "and bf16, fp16, int8 or one_bit (what is passed), e.g. 'auto overlap'; none of these for one by one, "
            "waited for, in the mean.",
        ),
    ] = None
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS[:SCHEDULE[:N]]",
            help="Cut the model into stages along a mesh axis, N on each rank, e.g. pp:zb-h1 or pp:interleaved-1f1b:2; "
            "- puts it in one piece. Schedules: `shardwright schedule --list`.",
        ),
    ] = None
    stage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET=N", help="What runs on which stage, e.g. layers.0-7=0. Repeatable. [default: balanced]"
        ),
    ] = None
    global_batch: Annotated[
        int | None,
        typer.Option(metavar="N", help="Samples a step, such as sequences. [default: one a data rank and microbatch]"),
    ] = None
    seq: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens a sequence, if the model takes sequences. [default: 8192, or the model's longest]"
        ),
    ] = None
    microbatches: Annotated[int | None, typer.Option(metavar="N", help="Parts of a step. [default: 1]")] = None
    precision: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="bf16, bf16-fp32grad, bf16-fp32sum, fp16, fp32 or float64. [default: bf16]"),
    ] = None
    save: Annotated[str | None, typer.Option(metavar="FILE", help="Write the plan file, too.")] = None


def takes_plan(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option of `PlanOptions` in place of its first parameter, which gets them as one value."""
    hints = get_type_hints(PlanOptions, include_extras=True)
    shared = [
        Parameter(
            field.name, Parameter.KEYWORD_ONLY, annotation=hints[field.name],
            default=Parameter.empty if field.name == "source" else field.default,
        )
        for field in fields(PlanOptions)
    ]  # fmt: skip
    own = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in list(signature(command, eval_str=True).parameters.values())[1:]
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        options = PlanOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        command(options, **values)

    run.__signature__ = Signature([*shared, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run
