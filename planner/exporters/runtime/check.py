"""Whether the tables of a pipeline fit each other and the mesh, before anything waits for what never comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .actions import read_row
from .mesh import Mesh
from .stages import Pipeline

_WHOLE, _SPLIT = [1, 1, 0, 0], [1, 0, 1, 1]


def check(pipeline: Pipeline, mesh: Mesh) -> None:
    """Raise a ValueError where the tables do not fit."""
    for problems in (_sizes, _wires, _rows):
        problem = next(problems(pipeline, mesh), None)
        if problem is not None:
            raise ValueError(problem)


def _sizes(pipeline: Pipeline, mesh: Mesh) -> Iterator[str]:
    size = mesh.sizes.get(pipeline.axis)
    if size != len(pipeline.rows):
        yield f"the axis {pipeline.axis} has size {size}, but the table has {len(pipeline.rows)} rows"
    for chain in pipeline.chains:
        if len(chain.stages) != len(pipeline.stages):
            yield f"a chain has {len(chain.stages)} stages, but the model has {len(pipeline.stages)}"
    numbered = sorted(stage for chain in pipeline.chains for stage in chain.stages)
    if numbered != list(range(len(pipeline.placement))):
        yield f"{len(pipeline.placement)} stages have places, but the chains are of the stages {numbered}"


def _wires(pipeline: Pipeline, mesh: Mesh) -> Iterator[str]:
    for wire in pipeline.wires:
        if not 0 <= wire.source < wire.target < len(pipeline.stages):
            yield f"{wire.value} goes from stage {wire.source} to stage {wire.target} of {len(pipeline.stages)}"
        elif wire.value not in pipeline.stages[wire.source].gives:
            yield f"stage {wire.source} does not give {wire.value}"
        elif wire.value not in pipeline.stages[wire.target].takes:
            yield f"stage {wire.target} does not take {wire.value}"


def _rows(pipeline: Pipeline, mesh: Mesh) -> Iterator[str]:
    for place, row in enumerate(pipeline.rows):
        held = pipeline.stages_at(place)
        if len({pipeline.part(stage) for stage in held}) < len(held):
            yield f"the rank at {pipeline.axis} {place} would hold a part of the model twice: stages {held}"
        found = Counter(str(action) for cell in read_row(row) for action in cell)
        expected = [(stage, micro) for stage in held for micro in _microbatches(pipeline, stage)]
        for stage, micro in expected:
            runs = [found.pop(f"{stage}{kind}{micro}", 0) for kind in "FBIW"]
            if runs not in (_WHOLE, _SPLIT):
                yield (
                    f"the row of {pipeline.axis} {place} runs F, B, I, W of stage {stage}, microbatch {micro}, {runs} "
                    f"times: it takes F and B once, or F, I and W"
                )
        if found:
            yield f"the row of {pipeline.axis} {place} has {next(iter(found))}, but runs the stages {held} only"


def _microbatches(pipeline: Pipeline, stage: int) -> tuple[int, ...]:
    return next(chain.microbatches for chain in pipeline.chains if stage in chain.stages)
