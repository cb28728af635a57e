"""Writes how a bundle reduces gradients: the buckets, with the names of their parameters, as `train.py` gives them."""

from __future__ import annotations

from ...core.assignment import Assembly, TrainingGraph
from ...core.bucket import Bucket, Reduced
from ...core.gradient_decision import GradientDecision
from ...core.layers import Layers, list_of
from ...core.stage import plain

COMPRESSIONS = {"bf16": "BFloat16", "fp16": "Float16", "int8": "Int8", "one_bit": "OneBit"}
"""Compression → its class in the runtime."""
WIDTH = 120


def fusion_lines(training: TrainingGraph, decision: GradientDecision) -> list[str]:
    """Return the lines of the setting `gradients`; none for a plan whose gradients are reduced one by one."""
    if not decision.gathers:
        return []
    buckets = [line for bucket in training.buckets for line in _bucket(training, bucket)]
    lines = ["    gradients=Fusion(", "        buckets=(", *buckets, "        ),"]
    lines += ["        overlap=True,"] * decision.overlap
    if decision.compression in COMPRESSIONS:
        lines.append(f"        compression={COMPRESSIONS[decision.compression]}(),")
    return [*lines, "    ),"]


def fusion_imports(decision: GradientDecision) -> dict[str, str]:
    """Return module → names of what `fusion_lines` names."""
    if not decision.gathers:
        return {}
    compressed = COMPRESSIONS.get(decision.compression)
    return {"parallel.fusion": "Bucket, Fusion"} | ({"parallel.compression": compressed} if compressed else {})


def _bucket(training: TrainingGraph, bucket: Bucket) -> list[str]:
    names = [f'"{_name(training.scopes[member.scope].assembly, member)}"' for member in bucket.members]
    way = bucket.members[0].way
    further = [f"together={bucket.together}"] * bool(bucket.together) + [f"way={way}"] * bool(way)
    short = f"            Bucket(({', '.join(names)}{',' * (len(names) == 1)}){''.join(f', {w}' for w in further)}),"
    if len(short) <= WIDTH:
        return [short]
    return [
        "            Bucket(",
        "                (",
        *(f"                    {name}," for name in names),
        "                ),",
        *(f"                {word}," for word in further),
        "            ),",
    ]


def _name(assembly: Assembly, member: Reduced) -> str:
    """Return the parameter's name, with the range of layers that it stands for."""
    name = plain(member.parameter)
    if not assembly.name:
        return name
    path, whole = list_of(assembly.name)
    first = whole.first if whole else 0
    for place, template in enumerate(assembly.templates):
        if name.startswith(f"{template}."):
            layers = Layers(first + place + member.start * assembly.period, member.iterations, assembly.period)
            token = str(layers.first) if layers.count == 1 else str(layers)
            return f"{path}.{token}{name[len(template) :]}"
    raise AssertionError(f"{name} lies in none of {assembly.templates}")
