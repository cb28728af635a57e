"""How many layers the models that come along have, by what their configs say."""

import pytest

from planner.importers import load_zoo

# num_hidden_layers of the configs, encoder and decoder together; ResNet-50 has 3 + 4 + 6 + 3 blocks.
LAYERS = {
    "llama-3-8b": 32, "bert-base": 12, "t5-base": 24, "gpt-oss-20b": 24, "deepseek-v3": 61, "whisper-tiny": 8,
    "resnet-50": 16, "convnext-l": 36, "dit-xl-2": 28, "dlrm": 0,
}  # fmt: skip


@pytest.mark.parametrize(("name", "layers"), LAYERS.items())
def test_layers_are_counted_alone_and_in_runs(name: str, layers: int) -> None:
    assert load_zoo(name).layer_count == layers
