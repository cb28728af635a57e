"""Plan files: the text, the exact round trip, and every refusal with its words."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.gradient_decision import AS_THEY_COME, COMPRESSIONS, REDUCTIONS, GradientDecision
from planner.core.graph import ModelSource
from planner.core.json_text import canonical, digest
from planner.core.layout import REDUCE_OPS, Layout
from planner.core.mesh import DeviceMesh
from planner.core.plan import (
    Decisions,
    FactorDecision,
    KeepDecision,
    ParameterDecision,
    PipelineDecision,
    RecomputeDecision,
    StageDecision,
)
from planner.document import read, write
from planner.errors import DocumentError


def source_of(content: dict[str, Any], name: str = "tiny") -> ModelSource:
    text = canonical(content)
    return ModelSource(name=name, kind="hf_config", digest=digest(text), content=text)


SOURCE = source_of({"hidden_size": 64, "rms_norm_eps": 1e-05})
DECISIONS = Decisions(
    cluster="2x8-h100-sxm",
    mesh=DeviceMesh.of({"tp": 8, "dp": 2}),
    global_batch=32,
    seq=4096,
    microbatches=4,
    precision="bf16",
    factors=(
        FactorDecision(target="*", factor="batch", axes=("dp",)),
        FactorDecision(target="layers.0-3.mlp.gate_proj|up_proj", factor="n", axes=("tp",)),
        FactorDecision(target="layers.3.mlp", factor="batch", axes=()),
    ),
    kept=(KeepDecision(target="o_proj", axis="tp", carriers=(0, 1)),),
    parameters=(
        ParameterDecision(target="*", axes=("dp",), regather=True),
        ParameterDecision(target="lm_head", layout=Layout.parse("[tp·dp, -]")),
        ParameterDecision(target="*", of="gradient", axes=("dp",), deferred=True),
    ),
    gradients=GradientDecision(fusion="size", bucket_bytes=26214400, reduction="sum", overlap=True, compression="int8"),
    pipeline=PipelineDecision(
        axis="pp", schedule="zb-h1", per_rank=1, stages=(StageDecision(target="layers.0-3", stage=0),)
    ),
    recompute=(RecomputeDecision(target="layers.*"), RecomputeDecision(target="self_attn", again=False)),
)

TEXT = """\
{
  "format": "shardwright-plan",
  "version": 3,
  "cluster": "2x8-h100-sxm",
  "mesh": [
    {"axis": "tp", "size": 8},
    {"axis": "dp", "size": 2}
  ],
  "global_batch": 32,
  "seq": 4096,
  "microbatches": 4,
  "precision": "bf16",
  "factors": [
    {"target": "*", "factor": "batch", "axes": ["dp"]},
    {"target": "layers.0-3.mlp.gate_proj|up_proj", "factor": "n", "axes": ["tp"]},
    {"target": "layers.3.mlp", "factor": "batch", "axes": []}
  ],
  "kept": [
    {"target": "o_proj", "axis": "tp", "carriers": [0, 1]}
  ],
  "parameters": [
    {
      "target": "*",
      "of": "storage",
      "axes": ["dp"],
      "layout": null,
      "regather": true,
      "deferred": false,
      "place": null
    },
    {
      "target": "lm_head",
      "of": "storage",
      "axes": [],
      "layout": "[tp·dp, -]",
      "regather": false,
      "deferred": false,
      "place": null
    },
    {
      "target": "*",
      "of": "gradient",
      "axes": ["dp"],
      "layout": null,
      "regather": false,
      "deferred": true,
      "place": null
    }
  ],
  "gradients": {
    "fusion": "size",
    "bucket_bytes": 26214400,
    "indices": [],
    "reduction": "sum",
    "overlap": true,
    "compression": "int8"
  },
  "pipeline": {
    "axis": "pp",
    "schedule": "zb-h1",
    "per_rank": 1,
    "stages": [
      {"target": "layers.0-3", "stage": 0}
    ]
  },
  "recompute": [
    {"target": "layers.*", "again": true},
    {"target": "self_attn", "again": false}
  ],
  "model": {
    "name": "tiny",
    "kind": "hf_config",
    "digest": "0b0c2b6ca6008e9a729d08c319eaa916c83395ce7c5db98c550e8d2b7642500f",
    "content": {"hidden_size": 64, "rms_norm_eps": 1e-05}
  }
}
"""


def test_the_text_of_a_plan() -> None:
    assert write(SOURCE, DECISIONS) == TEXT
    assert read(TEXT) == (SOURCE, DECISIONS)


def test_order_of_keys_and_spaces_do_not_matter_for_reading() -> None:
    shuffled = json.dumps(json.loads(TEXT), sort_keys=True, indent=1)
    assert read(shuffled) == (SOURCE, DECISIONS)
    assert write(*read(shuffled)) == TEXT


# ------------------------------------------------------------ round trip

words = st.text(min_size=1, max_size=12)
counts = st.integers(1, 1 << 48)
axis_names = st.from_regex(r"[A-Za-z]\w{0,4}", fullmatch=True)
axes = st.lists(axis_names, max_size=3, unique=True).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    names = draw(st.lists(axis_names, max_size=5, unique=True))
    places = [draw(st.integers(0, 3)) for _ in names]
    rank = draw(st.integers(0, 3))
    dims = tuple(tuple(name for name, place in zip(names, places, strict=True) if place == dim) for dim in range(rank))
    partial = tuple(name for name, place in zip(names, places, strict=True) if place >= rank)
    return Layout(dims, partial, draw(st.sampled_from(REDUCE_OPS)))


decisions_of_plans = st.builds(
    Decisions,
    cluster=words,
    mesh=st.dictionaries(axis_names, counts, max_size=4).map(DeviceMesh.of),
    global_batch=counts,
    seq=counts,
    microbatches=counts,
    precision=words,
    gradients=st.builds(
        GradientDecision,
        fusion=st.sampled_from(("none", "auto")),
        reduction=st.sampled_from(REDUCTIONS),
        overlap=st.booleans(),
        compression=st.sampled_from(COMPRESSIONS),
    )
    | st.builds(GradientDecision, fusion=st.just("size"), bucket_bytes=counts)
    | st.builds(
        GradientDecision,
        fusion=st.just("index"),
        indices=st.sets(counts, min_size=1, max_size=4).map(lambda places: tuple(sorted(places))),
    ),
    pipeline=st.none()
    | st.builds(
        PipelineDecision,
        axis=axis_names,
        schedule=words,
        per_rank=st.integers(0, 9),
        stages=st.lists(st.builds(StageDecision, target=words, stage=st.integers(0, 99)), max_size=3).map(tuple),
    ),
    recompute=st.lists(st.builds(RecomputeDecision, target=words, again=st.booleans()), max_size=2).map(tuple),
    factors=st.lists(st.builds(FactorDecision, target=words, factor=words, axes=axes), max_size=3).map(tuple),
    kept=st.lists(
        st.builds(
            KeepDecision,
            target=words,
            axis=words,
            carriers=st.lists(st.integers(0, 9), max_size=3).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    parameters=st.lists(
        st.builds(
            ParameterDecision,
            target=words,
            axes=axes,
            layout=st.none() | layouts(),
            regather=st.booleans(),
        )
        | st.builds(
            ParameterDecision,
            target=words,
            of=st.just("optimizer"),
            axes=axes,
            place=st.sampled_from([None, "device", "host"]),
        )
        | st.builds(
            ParameterDecision,
            target=words,
            of=st.just("gradient"),
            layout=st.none() | layouts(),
            deferred=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)
sources = st.builds(source_of, st.dictionaries(st.text(max_size=5), json_values), words)


@given(sources, decisions_of_plans)
def test_round_trip_is_exact(source: ModelSource, decisions: Decisions) -> None:
    text = write(source, decisions)
    assert read(text) == (source, decisions)
    assert write(*read(text)) == text


NEW_IN_3 = ("gradients", "pipeline", "recompute")
VERSION_1 = json.loads(TEXT) | {
    "version": 1,
    "parameters": [
        {"target": "*", "axes": ["dp"], "layout": None, "regather": True},
        {"target": "lm_head", "axes": [], "layout": "[tp·dp, -]", "regather": False},
    ],
}


def test_files_of_version_1_are_read() -> None:
    """They knew storage only; the gradient and the optimizer's state followed it."""
    known = {name: value for name, value in VERSION_1.items() if name not in NEW_IN_3}
    old = replace(DECISIONS, parameters=DECISIONS.parameters[:2], pipeline=None, recompute=(), gradients=AS_THEY_COME)
    assert read(json.dumps(known)) == (SOURCE, old)


def test_files_of_version_2_are_read() -> None:
    """They knew no pipeline, computed nothing again, and reduced gradients one by one, all on devices."""
    known = {name: value for name, value in json.loads(TEXT).items() if name not in NEW_IN_3}
    for entry in known["parameters"]:
        del entry["place"]
    assert read(json.dumps(known | {"version": 2})) == (
        SOURCE,
        replace(DECISIONS, pipeline=None, recompute=(), gradients=AS_THEY_COME),
    )


# -------------------------------------------------------------- refusals


def edited(**changes: Any) -> str:
    return json.dumps(json.loads(TEXT) | changes)


FACTOR = {"target": "*", "factor": "n", "axes": ["tp"]}
PARAMETER = {
    "target": "*",
    "of": "storage",
    "axes": [],
    "layout": None,
    "regather": False,
    "deferred": False,
    "place": None,
}

REFUSED = [
    (
        "[]",
        "document.format",
        'The plan file does not say "format": "shardwright-plan", so it is no plan. Give a file '
        "that Shardwright wrote.",
    ),
    (
        edited(format="other"),
        "document.format",
        'The plan file does not say "format": "shardwright-plan", so it is no plan. Give a file '
        "that Shardwright wrote.",
    ),
    (
        edited(version=4, colour="red"),
        "document.version",
        "The plan file is of version 4; this Shardwright reads 1, 2 and 3. Update Shardwright, or write "
        "the plan again with this one.",
    ),
    (
        edited(version=True),
        "document.version",
        "The plan file is of version true; this Shardwright reads 1, 2 and 3. Update Shardwright, or "
        "write the plan again with this one.",
    ),
    (
        edited(colour="red"),
        "document.schema",
        "In the plan file, colour is no known key. Mend or remove it.",
    ),
    (
        edited(factors=[FACTOR, FACTOR | {"axess": []}]),
        "document.schema",
        "In the plan file, factors[1].axess is no known key. Mend or remove it.",
    ),
    (
        json.dumps({k: v for k, v in json.loads(TEXT).items() if k != "seq"}),
        "document.schema",
        "In the plan file, seq is missing. Mend or remove it.",
    ),
    (
        edited(seq="4096", global_batch=0, microbatches=1.0, kept={}, precision=""),
        "document.schema",
        "In the plan file, global_batch is wrong (input should be greater than or equal to 1); seq "
        "is wrong (input should be a valid integer); microbatches is wrong (input should be a "
        "valid integer); and 2 more. Mend or remove it.",
    ),
    (
        edited(factors=[FACTOR | {"axes": ["tp", 3]}]),
        "document.schema",
        "In the plan file, factors[0].axes[1] is wrong (input should be a valid string). Mend or remove it.",
    ),
    (
        edited(mesh=[{"axis": "tp", "size": 2}, {"axis": "tp", "size": 4}]),
        "document.value",
        "In the plan file, mesh: The mesh names axis 'tp' twice. Name each axis once.",
    ),
    (
        edited(parameters=[PARAMETER, PARAMETER | {"layout": "[tp"}]),
        "document.value",
        "In the plan file, parameters[1].layout: '[tp' is not a layout: ',', '·' or ']' is expected in place of the "
        "end. Write e.g. [dp, tp·cp, -] +ep.",
    ),
    (
        edited(parameters=[PARAMETER | {"of": "optimizer", "regather": True}]),
        "document.value",
        "In the plan file, parameters[0]: regather belongs to the storage of '*', not to the optimizer. Say it in a "
        "decision on the storage.",
    ),
    (
        TEXT.replace('"hidden_size": 64', '"hidden_size": 65'),
        "document.model-digest",
        f"In the plan file, model.digest is {SOURCE.digest[:12]}…, and model.content has "
        f"{digest(SOURCE.content.replace('64', '65'))[:12]}…. Take the content as it was, or make "
        "a plan for the changed model.",
    ),
    (
        TEXT.replace("4096,", "4096"),
        "document.json-syntax",
        "The plan file is not JSON: Expecting ',' delimiter at line 11, column 3. Mend the text there.",
    ),
    (
        TEXT.replace("4096", "NaN"),
        "document.json-number",
        "The plan file holds NaN, which is no finite number. Write a number that a float64 can hold.",
    ),
    (
        TEXT.replace('"seq"', '"version"'),
        "document.json-key",
        "The plan file gives the key 'version' twice in one object. Keep one of the two.",
    ),
    (
        edited(kept=json.loads("[" * 40 + "]" * 40)),
        "document.json-depth",
        "The plan file nests more than 32 levels deep. Flatten it.",
    ),
    (
        TEXT + " " * (4 << 20),
        "document.too-large",
        f"The plan file has {len(TEXT.encode()) + (4 << 20):,} bytes; at most 4,194,304 are read. Give a smaller file.",
    ),
]


@pytest.mark.parametrize(("text", "code", "message"), REFUSED)
def test_refusals(text: str, code: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert (caught.value.code, str(caught.value)) == (code, message)


@given(
    st.dictionaries(
        st.sampled_from([*json.loads(TEXT), "more"]),
        json_values | st.lists(st.dictionaries(st.sampled_from([*FACTOR, *PARAMETER]), json_values)),
        max_size=3,
    )
)
def test_any_object_gives_a_plan_or_a_document_error(changes: dict[str, Any]) -> None:
    try:
        read(edited(**changes))
    except DocumentError as problem:
        # The message names places in the file, and does not copy it.
        assert len(str(problem)) < 600  # noqa: PT017


@pytest.mark.parametrize(
    ("source", "decisions", "code"),
    [
        (replace(SOURCE, content="{ }"), DECISIONS, "document.content"),
        (replace(SOURCE, content="[]"), DECISIONS, "document.content"),
        (replace(SOURCE, digest="0" * 64), DECISIONS, "document.model-digest"),
        (SOURCE, replace(DECISIONS, seq=-1), "document.schema"),
        (SOURCE, replace(DECISIONS, cluster=""), "document.schema"),
        (
            SOURCE,
            replace(
                DECISIONS,
                parameters=(ParameterDecision(target="*", layout=Layout((("a·b",),))),),
            ),
            "document.unwritable",
        ),
        (
            SOURCE,
            replace(DECISIONS, factors=DECISIONS.factors * 30_000),
            "document.too-large",
        ),
    ],
)
def test_what_could_not_be_read_is_not_written(source: ModelSource, decisions: Decisions, code: str) -> None:
    with pytest.raises(DocumentError) as caught:
        write(source, decisions)
    assert caught.value.code == code
