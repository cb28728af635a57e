"""Writes `pipeline.py`: the stages cut out of the model, what passes between them, and the schedule that runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from ...core.evaluated import EvaluatedPlan
from ...core.graph import Node
from ...core.layers import Layers
from ...core.stage import plain
from ..explicit.lines import WIDTH
from ..explicit.wrap import wrapped
from .model import OPERATORS, Model
from .passing import Passed, passed
from .pieces import Piece
from .problems import Problems
from .stage_classes import StageClasses, write_classes
from .texts import Texts

PIPELINE = "pipeline.py"
RESERVED = frozenset({
    "DeviceMesh", "F", "LAYERS", "Loss", "Mapping", "PASSED", "PLACES", "PipelineStage", "SHARED", "STAGES", "Sequence",
    "Stages", "TAKEN", "in_stages", "loss", "nn", "ops", "parallelize", "schedule", "torch",
})  # fmt: skip
ONE_STAGE = ("ScheduleGPipe", "Schedule1F1B")
"""Schedules that run one stage on each rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """`pipeline.py`, and what is known of the classes in it."""

    text: str
    classes: StageClasses


def write_stages(
    plan: EvaluatedPlan, pieces: tuple[Piece, ...], model: Model, texts: Texts, loss: Node, problems: Problems
) -> Staged:
    """Return `pipeline.py` of a plan with stages."""
    pipeline, made = plan.decisions.pipeline, passed(plan, pieces, loss, problems)
    assert pipeline is not None
    assert plan.schedule is not None
    shared = _shared(pieces, problems)
    problems.hold()
    classes = write_classes(pieces, model, texts, RESERVED)
    taken = [name for name, _, _ in pieces[0].alone.training.scopes[0].assembly.inputs]
    body = "\n\n".join([
        classes.text,
        "\n".join(_constants(classes, plan.schedule.placement, pipeline.axis, made, taken, shared)),
        "\n".join(_loss(texts, loss)),
        "\n".join(_schedule(plan.torch_schedule, pipeline.axis, plan.decisions.microbatches)),
        "\n".join(_in_stages(model.root, pipeline.axis, layered=bool(classes.layers))),
    ])  # fmt: skip
    title = f"The stages of {plan.graph.name}, cut out of the model, and the order in which they run."
    imports = _imports(body, model, plan.torch_schedule)
    return Staged(text=f'"""{title}"""\n\n{imports}\n\n\n{body}', classes=classes)


def _imports(body: str, model: Model, schedule: str) -> str:
    named = sorted({name for name, _ in model.classes.values() if re.search(rf"\b{name}\b", body)})
    typed = ["Mapping", *(["Sequence"] if "Sequence[" in body else [])]
    lines = [f"from collections.abc import {', '.join(typed)}", "", "import torch", "import torch.nn.functional as F"]
    lines += ["from torch import nn", "from torch.distributed.device_mesh import DeviceMesh"]
    lines += [f"from torch.distributed.pipelining import PipelineStage, {schedule}", ""]
    lines += wrapped(f"from model import ({', '.join(named)})", WIDTH) if len(named) > 4 else [
        f"from model import {', '.join(named)}"
    ]  # fmt: skip
    lines += [OPERATORS] if "ops." in body else []
    lines += ["from parallel.native_stages import Loss, Stages", "from parallelize import parallelize"]
    return "\n".join(lines)


def _shared(pieces: tuple[Piece, ...], problems: Problems) -> dict[str, dict[int, str]]:
    """Return parameter that several stages hold → stage → its name there."""
    modules = {path for piece in pieces for path in piece.modules}
    names: dict[str, dict[int, str]] = {}
    for piece in pieces:
        local = {tied: own for own, tied in piece.elsewhere.items()}
        first = piece.planned.training.scopes[0]
        for placed in first.assembly.parameters:
            name = placed.parameter.name
            names.setdefault(name, {})[piece.number] = local.get(name, name)
            if name not in local and name.rpartition(".")[0] in modules - piece.modules.keys():
                readers = {r.node for f in first.fanouts if f.value == name for r in f.readers}
                problems.add(name, f"{', '.join(sorted(readers))} of stage {piece.number} reads it and is no linear "
                             "layer of its own, which could hold a copy")  # fmt: skip
    return {name: places for name, places in names.items() if len(places) > 1}


def _constants(
    classes: StageClasses, places: tuple[int, ...], axis: str, made: tuple[tuple[Passed, ...], ...], taken: list[str],
    shared: Mapping[str, Mapping[int, str]],
) -> Iterator[str]:  # fmt: skip
    groups = [(name, len(list(group))) for name, group in groupby(classes.tops)]
    if len(set(classes.tops)) < len(classes.tops):
        entries = [f"*[{name}] * {n}" if n > 1 else name for name, n in groups]
        kind = " | ".join(f"type[{name}]" for name in dict.fromkeys(classes.tops))
        yield from wrapped(f"STAGES: Sequence[{kind}] = ({', '.join(entries)})", WIDTH)
    else:
        yield from wrapped(f"STAGES = ({', '.join(classes.tops)})", WIDTH)
    if classes.layers:
        yield "# The layers that each of them takes."
        yield from wrapped(f"LAYERS = ({', '.join(map(_span, classes.layers))})", WIDTH)
    yield f"# Where along {axis} each of them lies."
    yield from wrapped(f"PLACES = {places!r}", WIDTH)
    yield "# The inputs that the first one takes."
    yield f"TAKEN = ({', '.join(f'{name!r}' for name in taken)},)".replace("'", '"')
    if shared:
        yield "# Parameters that several stages hold, by the names that they have there."
    else:
        yield "# No parameter is held by several stages."
    text = ", ".join(
        f'"{name}": {{{", ".join(f"{n}: {own!r}" for n, own in held.items())}}}' for name, held in shared.items()
    )
    yield from wrapped(f"SHARED: Mapping[str, Mapping[int, str]] = {{{text}}}".replace("'", '"'), WIDTH)
    yield "# What goes into each stage, and in the end comes out of the last: of one microbatch, on one rank."
    runs = [(f"({', '.join(map(_example, key))},)", len(list(group))) for key, group in groupby(made)]
    entries = [f"*[{text}] * {n}" if n > 1 else text for text, n in runs]
    yield from wrapped(f"PASSED = ({', '.join(entries)})", WIDTH)
    yield ""


def _span(layers: Layers) -> str:
    start = f"{layers.first}, " if layers.first or layers.step > 1 else ""
    return f"range({start}{layers.last + 1}{f', {layers.step}' * (layers.step > 1)})"


def _example(tensor: Passed) -> str:
    wanted = ", requires_grad=True" * tensor.gradient
    sizes = ", ".join(map(str, tensor.shape))
    return f'torch.empty({sizes}, dtype=torch.{tensor.dtype}, device="meta"{wanted})'


def _loss(texts: Texts, loss: Node) -> Iterator[str]:
    logits, labels = (plain(name).rpartition(".")[2] for name in loss.operands)
    yield f"def loss({logits}: torch.Tensor, {labels}: torch.Tensor) -> torch.Tensor:"
    yield '    """Return the sum of the losses of a microbatch."""'
    yield from wrapped(f"    return {texts.loss(loss, (logits, labels))}", WIDTH)
    yield ""


def _schedule(name: str, axis: str, microbatches: int) -> Iterator[str]:
    yield f"def schedule(stages: Mapping[int, nn.Module], mesh: DeviceMesh, loss: Loss) -> {name}:"
    yield '    """Return what runs this rank\'s stages in their order."""'
    yield f'    device, group = torch.device(mesh.device_type), mesh.get_group("{axis}")'
    yield "    made = ["
    yield "        PipelineStage("
    yield "            module,"
    yield "            index,"
    yield "            len(STAGES),"
    yield "            device,"
    yield "            input_args=PASSED[index],"
    yield "            output_args=PASSED[index + 1],"
    yield "            group=group,"
    yield "        )"
    yield "        for index, module in stages.items()"
    yield "    ]"
    yield "    # Losses are divided by the targets of the whole step, so microbatches are summed and not averaged."
    given = "made[0]" if name in ONE_STAGE else "made"
    yield f"    return {name}({given}, n_microbatches={microbatches}, loss_fn=loss, scale_grads=False)"
    yield ""


def _in_stages(root: str, axis: str, *, layered: bool) -> Iterator[str]:
    yield f"def in_stages(model: {root}, mesh: DeviceMesh) -> Stages:"
    yield '    """Cut a model, whose parameters are on the meta device, and spread this rank\'s stages over ranks."""'
    yield f'    here = mesh.get_local_rank("{axis}")'
    yield "    numbers = [number for number, place in enumerate(PLACES) if place == here]"
    given = "model, LAYERS[number]" if layered else "model"
    yield f"    own = {{number: parallelize(STAGES[number]({given}), mesh) for number in numbers}}"
    yield "    return Stages("
    yield "        own,"
    yield "        mesh,"
    yield f'        dim="{axis}",'
    yield "        places=PLACES,"
    yield "        taken=TAKEN,"
    yield "        schedule=schedule,"
    yield "        loss=loss,"
    yield "        shared=SHARED,"
    yield "    )"
    yield ""
