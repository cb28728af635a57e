"""The graphs that come along are what tracing gives today, and they open quickly."""

import gzip
from dataclasses import replace
from importlib.resources import files
from time import process_time

import pytest

from planner.core.graph import Node
from planner.importers import IMPORTERS, load_source, load_zoo
from planner.importers import bundled as module
from planner.importers.bundled import bundled, bundled_names, zoo_source
from planner.verify import verify_graph

# As the model cards say, equal to the last parameter, or as tests of the modules count them.
PUBLISHED = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "convnext-l": 197_767_336,
    "deepseek-v3": 671_026_404_352,
    "dit-xl-2": 674_816_272,
    "gpt-oss-120b": 116_829_156_672,
    "gpt-oss-20b": 20_914_757_184,
    "mamba2-130m": 128_989_632,
    "resnet-50": 25_557_032,
    "resnet-50-130k": 289_878_032,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "unet-sd1": 859_520_964,
    "vit-h-14": 632_045_800,
    "vit-l-16": 304_326_632,
    "whisper-large-v3": 1_543_490_560,
    "whisper-tiny": 37_760_640,
}
QUICK = ("resnet-50", "whisper-tiny")


def nodes(name: str) -> list[Node]:
    return [node for block in load_zoo(name).blocks for node in block.nodes]


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters(name: str, count: int) -> None:
    assert load_zoo(name).parameter_count == count


@pytest.mark.parametrize("name", bundled_names())
def test_no_operator_is_unknown(name: str) -> None:
    assert [node.name for node in nodes(name) if node.op == "unknown"] == []


@pytest.mark.parametrize("name", bundled_names())
def test_the_graph_is_sound_and_stands_for_its_source(name: str) -> None:
    graph = load_zoo(name)
    assert verify_graph(graph) == ()
    assert load_source(graph.source) == graph
    assert IMPORTERS[graph.source.kind].load(graph.source.content, "mine").root == graph.root
    assert len(graph.feeds) == len(graph.root.inputs)


@pytest.mark.parametrize("name", bundled_names())
def test_it_opens_in_half_a_second(name: str) -> None:
    module._graph.cache_clear()
    start = process_time()
    load_zoo(name)
    # Of a fast machine; that of a test may be a slow one.
    assert process_time() - start < 5 * 0.5


def test_another_source_has_no_graph() -> None:
    assert bundled(replace(zoo_source("resnet-50"), digest="0")) is None
    assert load_zoo("resnet-50").source == zoo_source("resnet-50")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in bundled_names()]
)
def test_tracing_gives_what_came_along(name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from planner.importers.bundle import traced_text

    stored = files("planner.importers").joinpath("zoo", "graphs", f"{name}.json.gz").read_bytes()
    assert gzip.decompress(stored).decode() == traced_text(name)
