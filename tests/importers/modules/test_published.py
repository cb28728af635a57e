"""The modules have the sizes of the published models, and compute what other code for them does."""

import json
from importlib.resources import files

import pytest

pytest.importorskip("torch")
import torch

from planner.importers.modules import ARCHITECTURES, ModuleSource, read_source
from planner.importers.modules.mamba import Mixer
from planner.importers.modules.tracing import example_inputs, make_module


def zoo_text(name: str) -> str:
    return files("planner.importers").joinpath("zoo", f"{name}.json").read_text("utf-8")


PUBLISHED = {
    "resnet-50": 25_557_032,
    # The same body, and a head of 130,000 rows of 2048 with as many biases.
    "resnet-50-130k": 25_557_032 - 1000 * 2049 + 130_000 * 2049,
    "unet-sd1": 859_520_964,
    "mamba2-130m": 128_989_632,
    # 28 blocks of 18·h² + 15·h (attention 4, MLP 8, norms 6), both embedders, the last layer, without learnt variance.
    "dit-xl-2": 28 * (18 * 1152**2 + 15 * 1152)
    + (16 + 1) * 1152 + 257 * 1152 + 1153 * 1152 + 1001 * 1152 + 2 * 1153 * 1152 + 1153 * 16,
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        module = make_module(read_source(zoo_text(name), name))
    assert sum(p.numel() for p in module.parameters()) == count


def test_dlrm_has_a_deep_and_a_wide_row_for_every_id() -> None:
    source = read_source(zoo_text("dlrm"), "dlrm")
    with torch.device("meta"):
        module = make_module(source)
    rows = sum(json.loads(zoo_text("dlrm"))["arguments"]["rows"])
    linear = sum(a * b + b for a, b in ((13, 512), (512, 256), (256, 128), (128 + 27 * 27, 1024), (1024, 1024),
                                        (1024, 512), (512, 256), (256, 1), (13, 1)))  # fmt: skip
    assert sum(p.numel() for p in module.parameters()) == 129 * rows + linear


def tiny(name: str) -> ModuleSource:
    return ModuleSource(architecture=ARCHITECTURES[name], arguments=ARCHITECTURES[name].tiny)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_tiny_one_has_a_loss_and_every_gradient(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = make_module(tiny(name)).double(), example_inputs(tiny(name), torch.float64)
    inputs = {key: torch.rand_like(x) if x.is_floating_point() else x for key, x in inputs.items()}
    loss, _ = module(*inputs.values())
    loss.backward()
    assert loss.isfinite()
    for path, parameter in module.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path


def test_chunks_give_what_the_recurrence_gives() -> None:
    torch.manual_seed(0)
    heads, width, state, length = 3, 4, 5, 12
    mixer = Mixer(8, heads, width, state, 3, 4).double()
    mixer.A_log.data.normal_()
    x = torch.randn(2, length, heads, width, dtype=torch.float64)
    step = torch.rand(2, length, heads, dtype=torch.float64)
    b, c = torch.randn(2, 2, length, state, dtype=torch.float64)
    held, expected = torch.zeros(2, heads, width, state, dtype=torch.float64), []
    for t in range(length):
        decay = torch.exp(-step[:, t] * mixer.A_log.exp())
        held = decay[..., None, None] * held + torch.einsum("bh,bhp,bn->bhpn", step[:, t], x[:, t], b[:, t])
        expected.append(torch.einsum("bhpn,bn->bhp", held, c[:, t]))
    assert torch.allclose(mixer.scan(x, step, b, c), torch.stack(expected, 1), rtol=1e-12, atol=1e-12)


def test_far_decays_leave_gradients_finite() -> None:
    mixer = Mixer(8, 2, 4, 5, 3, 4).double()
    mixer.A_log.data.fill_(8.0)
    x = torch.randn(1, 8, 8, dtype=torch.float64, requires_grad=True)
    mixer(x).sum().backward()
    assert x.grad.isfinite().all()


def test_mamba_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    given = ARCHITECTURES["mamba2"].tiny
    config = transformers.Mamba2Config(
        vocab_size=given["vocab"], hidden_size=given["width"], num_hidden_layers=given["depth"],
        num_heads=given["heads"], head_dim=given["head_dim"], state_size=given["state"], conv_kernel=given["window"],
        chunk_size=given["chunk"], n_groups=1, expand=2, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    other = transformers.Mamba2ForCausalLM(config).double()
    ours = make_module(tiny("mamba2")).double()
    names = {name.replace("embedding.", "embeddings."): value for name, value in other.state_dict().items()}
    ours.load_state_dict({name: names[name] for name in ours.state_dict()})
    tokens = torch.randint(0, given["vocab"], (2, given["seq"]))
    _, logits = ours(tokens, tokens)
    theirs = other(input_ids=tokens, use_cache=False).logits
    # They compute the states in float32.
    assert torch.allclose(logits, theirs.double(), rtol=1e-4, atol=1e-5)
