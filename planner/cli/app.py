"""The commands. Each imports what it needs when it runs, so that none waits for what another one uses."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PlannerError
from .door import Door, progress, show, show_json, terminal_width, warn, write_text
from .options import Form, Json, PlanOptions, takes_plan

app = typer.Typer(
    cls=Door, help="Plan how to train a PyTorch model on many devices.", pretty_exceptions_enable=False,
    rich_markup_mode=None, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Plan how to train a PyTorch model on many devices: collectives, memory, step time, and code that is proven."""
    if version:
        from importlib.metadata import version as version_of

        show(f"shardwright {version_of('shardwright')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        show(context.get_help())


@app.command()
def models(as_json: Json = False) -> None:
    """List the models that have a name."""
    from ..importers import load_zoo, zoo_names
    from .facts import facts
    from .models_text import models_json, models_text

    found = [facts(load_zoo(name)) for name in zoo_names()]
    if as_json:
        show_json({"models": models_json(found)})
    else:
        show(models_text(found))


@app.command()
def trace(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A function or class of yours that makes a torch module: package.module:name or file.py:name. It runs "
            "here. Or a model's name or config.json.",
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="INPUT",
            help="An example input, e.g. 'int64[8,2048]' or 'tokens=int64[B=8,S=2048]', where B and S stay open. "
            "Repeatable.",
        ),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write the graph, as JSON.")] = None,
    output: Annotated[
        str, typer.Option(metavar="NAME", help="The output that is the loss, or that it is taken of, by name or place.")
    ] = "",
    loss: Annotated[str, typer.Option(metavar="NAME", help="A loss to take of it: cross_entropy or mse.")] = "",
    real: Annotated[
        bool, typer.Option("--real", help="Make the module with its weights, not their shapes alone.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Read the graph of a model by running it on shapes (needs torch)."""
    from ..importers.graph_json import write_graph
    from .trace import trace_json, trace_text, traced
    from .watching import watched

    with watched() as watch:
        graph = traced(target, inputs or (), output=output, loss=loss, real=real, watch=watch)
    if out is not None:
        write_text(out, write_graph(graph))
    if as_json:
        show_json(trace_json(graph))
    else:
        show(trace_text(graph))


@app.command()
@takes_plan
def evaluate(
    options: PlanOptions,
    details: Annotated[bool, typer.Option("--details", help="Open every number down to its inputs.")] = False,
    as_json: Json = False,
) -> None:
    """Price a plan: step time, memory on a device, and every collective."""
    from ..compose import evaluate as priced
    from .plans import request, save
    from .report_json import report_json
    from .report_text import report_text

    asked = request(options)
    report = priced(asked.plan)
    save(asked, options)
    if as_json:
        show_json(report_json(asked, report))
    else:
        show(report_text(asked, report, terminal_width(), details=details))


@app.command()
@takes_plan
def export(
    options: PlanOptions,
    out: Annotated[str, typer.Argument(metavar="OUT", help="A new or empty folder.")],
    form: Form = "explicit",
    as_json: Json = False,
) -> None:
    """Write a plan as torch.distributed code that needs torch alone."""
    from ..compose import train
    from ..delivery import export as written
    from .plans import request, save
    from .report_json import diagnostics_json

    asked = request(options)
    found = train(asked.plan).assignment.diagnostics
    save(asked, options)
    try:
        files = written(asked.plan, out, form)
    except OSError as problem:
        raise PlannerError(
            "cli.not-written", f"{out!r} can't be written: {problem.strerror or problem}.", "Name another folder.",
            subject=out,
        ) from None  # fmt: skip
    names = sorted(str(path.relative_to(out)) for path in files)
    if as_json:
        show_json({"folder": out, "files": names, "diagnostics": diagnostics_json(found)})
        return
    warn(found)
    show("\n".join(str(Path(out) / name) for name in names))


@app.command()
@takes_plan
def prove(
    options: PlanOptions,
    ranks: Annotated[int, typer.Option(metavar="N", min=1, help="Most processes to run.")] = 8,
    training: Annotated[
        bool, typer.Option("--training", help="Compare losses and parameters of 20 steps, not one step's gradients.")
    ] = False,
    form: Form = "explicit",
    as_json: Json = False,
) -> None:
    """Run a plan's code on ranks and compare it with the unsharded model (needs torch)."""
    from ..compose import bundle, train
    from ..proof import prove as proven
    from .plans import request, save
    from .proof_text import proof_text
    from .report_json import proof_json

    asked = request(options)
    found = train(asked.plan).assignment.diagnostics
    save(asked, options)
    with progress(f"running the plan on up to {ranks} ranks …"):
        proof = proven(
            asked.plan, ranks=ranks, kind="training" if training else "gradients",
            export=lambda plan: bundle(plan, form),
        )  # fmt: skip
    if as_json:
        show_json(proof_json(asked, proof, found))
    else:
        warn(found)
        show(proof_text(proof, training=training))
    if not proof.ok:
        raise typer.Exit(1)


@app.command()
def redistribute(
    mesh: Annotated[str, typer.Option(metavar="AXES", help="Mesh axes with sizes, e.g. dp:2,tp:4.")],
    shape: Annotated[str, typer.Option(metavar="SIZES", help="Global shape, e.g. 4096x4096.")],
    layouts: Annotated[
        list[str] | None, typer.Argument(metavar="[FROM TO]", help="The layouts, in place of --from and --to.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LAYOUT",
            help="E.g. '[dp, tp]', '[dp, -] +tp', \"P('dp', None)\", 'Shard(0), Partial()' or '[2, 4] | [1, -1]'.",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option("--to", metavar="LAYOUT", help="E.g. '[tp, dp]'.")] = None,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="Element type.")] = "bfloat16",
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it runs on. [default: nodes of 8 H100]")
    ] = None,
    to_mesh: Annotated[
        str | None, typer.Option(metavar="AXES", help="Another mesh of the same ranks, which the second layout is on.")
    ] = None,
    to_shape: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Another shape of the tensor, which the second layout is of.")
    ] = None,
    planner: Annotated[
        str, typer.Option(metavar="NAME", help="cheapest; mindspore or mindspore-alltoall, to compare with it.")
    ] = "cheapest",
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What is least: time, bytes (received), peak (memory) or steps.")
    ] = "time",
    no_exchange: Annotated[bool, typer.Option("--no-exchange", help="Do without the direct exchange.")] = False,
    front: Annotated[
        bool, typer.Option("--pareto", help="List the ways of which none is better in time, bytes, peak and steps.")
    ] = False,
    steps: Annotated[bool, typer.Option("--steps", help="Draw what the ranks hold after every step.")] = False,
    as_json: Json = False,
) -> None:
    """Find the best collectives from one layout to another, and draw which rank holds what."""
    from ..redistribution import SearchOptions
    from . import syntax

    before, after = syntax.two_layouts(layouts or (), source, target)
    options = SearchOptions(objective=objective, exchange=not no_exchange)
    if to_mesh or to_shape or planner != "cheapest":
        from .crossing import crossing_answer, crossing_json, crossing_text

        syntax.without_options(options, front, planner)
        crossed = crossing_answer(
            before, after, mesh=mesh, to_mesh=to_mesh, shape=shape, to_shape=to_shape, dtype=dtype, cluster=cluster,
            planner=planner, options=options,
        )  # fmt: skip
        show_json(crossing_json(crossed)) if as_json else show(crossing_text(crossed, each=steps))
        return
    from .redistribution import answer, answer_json, answer_text

    found = answer(before, after, mesh=mesh, shape=shape, dtype=dtype, cluster=cluster, options=options, front=front)
    if as_json:
        show_json(answer_json(found))
    else:
        show(answer_text(found, each=steps))


@app.command()
def schedule(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A schedule; none lists them.")] = "",
    ranks: Annotated[int, typer.Option(metavar="N", min=1, help="Ranks of the pipeline.")] = 4,
    microbatches: Annotated[int, typer.Option(metavar="N", min=1, help="Microbatches of a step.")] = 8,
    parts: Annotated[int, typer.Option(metavar="N", min=0, help="Parts a rank. [default: what it needs]")] = 0,
    forward: Annotated[float, typer.Option(metavar="T", min=1e-9, help="Time of a rank's forward.")] = 1.0,
    inputs: Annotated[float, typer.Option(metavar="T", min=0, help="Time of its input gradients.")] = 1.0,
    weights: Annotated[float, typer.Option(metavar="T", min=0, help="Time of its weight gradients.")] = 1.0,
    send: Annotated[float, typer.Option(metavar="T", min=0, help="Time of a message between ranks.")] = 0.0,
    keep: Annotated[
        float, typer.Option(metavar="N", min=0, help="Microbatches that a rank has room for, for `automatic`.")
    ] = 0.0,
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What `automatic` makes small: makespan, or the longest span of a rank.")
    ] = "makespan",
    as_csv: Annotated[bool, typer.Option("--csv", help="Write the order as torch's CSV.")] = False,
    as_trace: Annotated[bool, typer.Option("--trace", help="Write a trace that Perfetto opens.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a pipeline schedule of equal parts, with its bubble and what it keeps."""
    from ..schedules import EqualParts, equal_parts
    from .schedules import answer_json, answer_text, csv_text, listing, trace_text

    if not name:
        show(listing())
        return
    found = equal_parts(
        EqualParts(
            name=name, ranks=ranks, microbatches=microbatches, per_rank=parts, forward=forward, backward_input=inputs,
            backward_weight=weights, send=send, keep=keep, objective=objective,
        )
    )  # fmt: skip
    if as_json:
        show_json(answer_json(found))
    elif as_trace:
        show(trace_text(found))
    else:
        show(csv_text(found) if as_csv else answer_text(found, terminal_width() or 120))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8000]")] = None,
) -> None:
    """Serve the designer on this machine."""
    given = [f"--{name}={value}" for name, value in (("host", host), ("port", port)) if value is not None]
    # -P: a folder named backend where the user stands is not ours. In place of this process, so that signals reach it.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "backend", *given])
