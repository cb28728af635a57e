"""What may stand in the source of an architecture."""

import json

import pytest

from planner.errors import ModelError
from planner.importers.modules import ARCHITECTURES, ModuleSource, read_source

RESNET = {"module": "resnet", "arguments": {"image": 32, "blocks": [1, 2], "width": 8, "classes": 10}}


def test_the_text_reads_back() -> None:
    source = read_source(json.dumps(RESNET), "mine")
    assert source == ModuleSource(
        architecture=ARCHITECTURES["resnet"], arguments={"image": 32, "blocks": (1, 2), "width": 8, "classes": 10}
    )
    assert read_source(source.text, "mine") == source
    assert json.loads(source.text) == RESNET


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tiny_arguments_are_all(name: str) -> None:
    source = ModuleSource(architecture=ARCHITECTURES[name], arguments=ARCHITECTURES[name].tiny)
    assert read_source(source.text, name) == source


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"module": "resnext"}, "model.module-unknown", '"resnext"'),
        ({"module": 3}, "model.module-unknown", "3"),
        ({"arguments": 3}, "model.module-arguments", "not an object"),
        ({"arguments": {**RESNET["arguments"], "depth": 3}}, "model.module-arguments", "no argument depth"),
        ({"arguments": {"blocks": [1]}}, "model.module-arguments", "lacks image, width and classes"),
        ({"arguments": {**RESNET["arguments"], "width": 0}}, "model.module-arguments", "width is 0"),
        ({"arguments": {**RESNET["arguments"], "width": True}}, "model.module-arguments", "width is true"),
        ({"arguments": {**RESNET["arguments"], "blocks": []}}, "model.module-arguments", "blocks is a list"),
        ({"arguments": {**RESNET["arguments"], "blocks": [1 << 20]}}, "model.module-arguments", "blocks is"),
        ({"arguments": {**RESNET["arguments"], "classes": 1 << 40}}, "model.module-arguments", "classes is"),
    ],
)  # fmt: skip
def test_what_is_refused(change: dict[str, object], code: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_source(json.dumps(RESNET | change), "mine")
    assert caught.value.code == code
    assert said in caught.value.diagnostic.message
    assert caught.value.diagnostic.hint
