"""docs/reference/zoo.md is what its script writes, and says of torch what torch says."""

import json

import pytest

from benchmarks.zoo.own_counts import own_counts
from benchmarks.zoo.page import BATCH, PAGE, SEQ, TRUTH, WHOLE, WRITTEN_OUT, layer, page
from planner.importers import load_zoo

TOLD = json.loads(TRUTH.read_text("utf-8"))


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(TOLD), "python -m benchmarks.zoo.page writes it anew"


@pytest.mark.parametrize("name", TOLD)
def test_counts_are_those_of_torch(name: str) -> None:
    graph, row = load_zoo(name), TOLD[name]
    whole = own_counts(graph, BATCH, SEQ)
    _, part = layer(graph, whole)
    assert graph.parameter_count == row["parameters"]
    assert whole.products + whole.attention - whole.experts == pytest.approx(row["forward"], rel=1e-3)
    if name in WRITTEN_OUT:
        return
    assert part.backward - part.experts_backward == pytest.approx(row["backward"], rel=1e-2)
    if not whole.experts and name != "mamba2-130m":
        assert part.kept == pytest.approx(row["kept"], rel=1e-2)


@pytest.mark.parametrize("name", ["resnet-50", pytest.param("bert-base", marks=pytest.mark.slow)])
def test_torch_says_so_today(name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from benchmarks.zoo.table import torch_row

    assert torch_row(name) == TOLD[name]
    assert name in WHOLE or "layer" in layer(load_zoo(name), own_counts(load_zoo(name), BATCH, SEQ))[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-base", "dlrm", "gpt2", "resnet-50", "whisper-tiny"])
def test_another_batch_and_sequence_need_no_new_trace(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from benchmarks.zoo.torch_counts import forward_flops, model_and_inputs

    counts = own_counts(load_zoo(name), 3, 40)
    model, inputs = model_and_inputs(name, 3, 40, torch.bfloat16, {})
    assert counts.products + counts.attention == forward_flops(model, inputs)
