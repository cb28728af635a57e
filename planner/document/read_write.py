"""A plan's decisions ↔ the text of a plan file.

Invariants: `read(write(source, decisions)) == (source, decisions)`; equal plans have equal text.
Whatever is wrong with a file is one `DocumentError` that says where in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from ..core.gradient_decision import GradientDecision
from ..core.graph import ModelSource
from ..core.json_text import JsonBounds, canonical, digest, parse
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.plan import (
    Decisions,
    FactorDecision,
    KeepDecision,
    ParameterDecision,
    PipelineDecision,
    RecomputeDecision,
    StageDecision,
)
from ..errors import DocumentError, LayoutError, PlannerError
from .migrate import MIGRATIONS, migrate
from .pretty import pretty
from .schema import FORMAT, VERSION, Gradients, Model, Parameter, Pipeline, PlanFile

BOUNDS = JsonBounds(error=DocumentError, prefix="document", max_bytes=4 << 20, max_depth=32)
_FILE = "The plan file"
# How many findings of a file one message names.
_NAMED = 3


def write(source: ModelSource, decisions: Decisions) -> str:
    """Return the text of a plan file.

    Raises
    ------
    DocumentError
        `document.content` if the model's content is no canonical JSON object; what `read` raises,
        or `document.unwritable`, if the file would not give the same plan again.
    """
    content = parse(source.content, "The model's content", BOUNDS)
    if not isinstance(content, dict) or canonical(content) != source.content:
        raise DocumentError(
            "document.content",
            f"The content of model {source.name!r} is no JSON object in canonical form.",
            "Load the model again.",
            subject=source.name,
        )
    text = pretty(_plain(source, content, decisions)) + "\n"
    # Found out now, while the plan is still there, and not when the file is opened.
    if read(text) != (source, decisions):
        raise DocumentError(
            "document.unwritable",
            "The plan holds a name that a plan file can't tell from something else.",
            "Name mesh axes with a letter first.",
        )
    return text


def read(text: str) -> tuple[ModelSource, Decisions]:
    """Return the model source and the decisions of a plan file.

    Raises
    ------
    DocumentError
        `document.json-…` or `document.too-large` for what is no JSON within bounds,
        `document.format`, `document.version`, `document.schema`, `document.value`,
        `document.model-digest`.
    """
    value = parse(text, _FILE, BOUNDS)
    file_of_now = _current(value)
    try:
        file = PlanFile.model_validate(file_of_now)
    except ValidationError as problem:
        raise _schema_error(problem) from None
    return _source(file.model), _decisions(file)


def _plain(source: ModelSource, content: dict[str, object], decisions: Decisions) -> dict[str, object]:
    """Return the file as plain values; the order of keys here is their order in the file."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster": decisions.cluster,
        "mesh": [{"axis": name, "size": size} for name, size in decisions.mesh.axes],
        "global_batch": decisions.global_batch,
        "seq": decisions.seq,
        "microbatches": decisions.microbatches,
        "precision": decisions.precision,
        "factors": [{"target": d.target, "factor": d.factor, "axes": list(d.axes)} for d in decisions.factors],
        "kept": [{"target": d.target, "axis": d.axis, "carriers": list(d.carriers)} for d in decisions.kept],
        "parameters": [
            {
                "target": d.target,
                "of": d.of,
                "axes": list(d.axes),
                "layout": None if d.layout is None else str(d.layout),
                "regather": d.regather,
                "deferred": d.deferred,
                "place": d.place,
            }
            for d in decisions.parameters
        ],
        "gradients": {
            "fusion": decisions.gradients.fusion,
            "bucket_bytes": decisions.gradients.bucket_bytes,
            "indices": list(decisions.gradients.indices),
            "reduction": decisions.gradients.reduction,
            "overlap": decisions.gradients.overlap,
            "compression": decisions.gradients.compression,
        },
        "pipeline": _plain_pipeline(decisions.pipeline),
        "recompute": [{"target": d.target, "again": d.again} for d in decisions.recompute],
        "model": {
            "name": source.name,
            "kind": source.kind,
            "digest": source.digest,
            "content": content,
        },
    }


def _plain_pipeline(pipeline: PipelineDecision | None) -> dict[str, object] | None:
    if pipeline is None:
        return None
    return {
        "axis": pipeline.axis,
        "schedule": pipeline.schedule,
        "per_rank": pipeline.per_rank,
        "stages": [{"target": d.target, "stage": d.stage} for d in pipeline.stages],
    }


def _current(value: object) -> dict[str, object]:
    """Return the file as one of this version, after checking what tells it from any other JSON."""
    name = value.get("format") if isinstance(value, dict) else None
    if not isinstance(value, dict) or name != FORMAT:
        raise DocumentError(
            "document.format",
            f'{_FILE} does not say "format": "{FORMAT}", so it is no plan.',
            "Give a file that Shardwright wrote.",
            subject="format",
        )
    version = value.get("version")
    # 1.0 and true are equal to 1, and not what a plan file says.
    if type(version) is not int or version not in {*MIGRATIONS, VERSION}:
        raise DocumentError(
            "document.version",
            f"{_FILE} is of version {canonical(version)[:40]}; this Shardwright reads "
            f"{', '.join(map(str, MIGRATIONS))} and {VERSION}.",
            "Update Shardwright, or write the plan again with this one.",
            subject="version",
        )
    return migrate(value, version)


def _schema_error(problem: ValidationError) -> DocumentError:
    found = [
        (_location(error["loc"]), _sentence(error["type"], error["msg"]))
        for error in problem.errors(include_url=False, include_context=False, include_input=False)
    ]
    shown = "; ".join(f"{where} {what}" for where, what in found[:_NAMED])
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return DocumentError(
        "document.schema",
        f"In the plan file, {shown}{more}.",
        "Mend or remove it.",
        subject=found[0][0],
    )


def _sentence(kind: str, message: str) -> str:
    known = {"extra_forbidden": "is no known key", "missing": "is missing"}
    return known.get(kind, f"is wrong ({message[:1].lower()}{message[1:]})")


def _location(steps: Iterable[str | int]) -> str:
    """Write a path into the file as JavaScript does: `factors[2].axes[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    shown = text.lstrip(".")
    return shown if len(shown) <= 100 else f"{shown[:97]}…"


def _source(model: Model) -> ModelSource:
    content = canonical(model.content)
    if (actual := digest(content)) != model.digest:
        raise DocumentError(
            "document.model-digest",
            f"In the plan file, model.digest is {model.digest[:12]}…, and model.content has {actual[:12]}….",
            "Take the content as it was, or make a plan for the changed model.",
            subject="model.digest",
        )
    return ModelSource(name=model.name, kind=model.kind, digest=model.digest, content=content)


def _decisions(file: PlanFile) -> Decisions:
    try:
        mesh = DeviceMesh(tuple((axis.axis, axis.size) for axis in file.mesh))
    except LayoutError as problem:
        raise _value_error("mesh", problem) from None
    return Decisions(
        cluster=file.cluster,
        mesh=mesh,
        global_batch=file.global_batch,
        seq=file.seq,
        microbatches=file.microbatches,
        precision=file.precision,
        factors=tuple(FactorDecision(target=d.target, factor=d.factor, axes=tuple(d.axes)) for d in file.factors),
        kept=tuple(KeepDecision(target=d.target, axis=d.axis, carriers=tuple(d.carriers)) for d in file.kept),
        parameters=tuple(_parameter(index, d) for index, d in enumerate(file.parameters)),
        gradients=_gradients(file.gradients),
        pipeline=_pipeline(file.pipeline),
        recompute=tuple(RecomputeDecision(target=d.target, again=d.again) for d in file.recompute),
    )


def _gradients(entry: Gradients) -> GradientDecision:
    try:
        return GradientDecision(
            fusion=entry.fusion, bucket_bytes=entry.bucket_bytes, indices=tuple(entry.indices),
            reduction=entry.reduction, overlap=entry.overlap, compression=entry.compression,
        )  # fmt: skip
    except PlannerError as problem:
        raise _value_error("gradients", problem) from None


def _pipeline(entry: Pipeline | None) -> PipelineDecision | None:
    if entry is None:
        return None
    stages = tuple(StageDecision(target=d.target, stage=d.stage) for d in entry.stages)
    return PipelineDecision(axis=entry.axis, schedule=entry.schedule, per_rank=entry.per_rank, stages=stages)


def _parameter(index: int, entry: Parameter) -> ParameterDecision:
    try:
        layout = None if entry.layout is None else Layout.parse(entry.layout)
    except LayoutError as problem:
        raise _value_error(f"parameters[{index}].layout", problem) from None
    try:
        return ParameterDecision(
            target=entry.target, of=entry.of, axes=tuple(entry.axes), layout=layout, regather=entry.regather,
            deferred=entry.deferred, place=entry.place,
        )  # fmt: skip
    except PlannerError as problem:
        raise _value_error(f"parameters[{index}]", problem) from None


def _value_error(where: str, problem: PlannerError) -> DocumentError:
    diagnostic = problem.diagnostic
    return DocumentError(
        "document.value",
        f"In the plan file, {where}: {diagnostic.message}",
        diagnostic.hint,
        subject=where,
    )
