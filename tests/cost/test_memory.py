"""Memory counted by hand on the tiny model: batch 4, sequence 8, width 16, hidden 32, vocabulary 64, three layers."""

import pytest
from tiny_model import HIDDEN, LAYERS, VOCAB, WIDTH, training_graph

from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions, FactorDecision, ParameterDecision
from planner.cost import price
from planner.cost.memory import held
from planner.hardware import PRECISIONS, cluster

H100 = cluster("1x8-h100-sxm")
DATA = FactorDecision(target="embed", factor="batch", axes=("dp",))
MEGATRON = (
    FactorDecision(target="layers.*.up", factor="n", axes=("tp",)),
    FactorDecision(target="layers.*.down", factor="k", axes=("tp",)),
)
PARAMETERS = LAYERS * 2 * WIDTH * HIDDEN + 2 * VOCAB * WIDTH


def decisions(mesh, factors=(DATA,), parameters=(), microbatches=1, batch=4):
    return Decisions(
        cluster="1x8-h100-sxm",
        mesh=DeviceMesh.of(mesh),
        global_batch=batch,
        seq=8,
        microbatches=microbatches,
        factors=factors,
        parameters=parameters,
    )


def memory(chosen, precision="bf16"):
    return price(training_graph(chosen), chosen.microbatches, PRECISIONS[precision], H100).memory


def test_one_device_by_hand():
    found = memory(decisions({"dp": 1}))
    tokens = 4 * 8
    assert found["parameters"] == 2 * PARAMETERS
    assert found["gradients"] == 2 * PARAMETERS
    assert found["optimizer state"] == 12 * PARAMETERS
    layer = tokens * WIDTH * 2 + tokens * HIDDEN * 2  # x, read by up; the hidden value, read by down
    outside = tokens * 8 + tokens * WIDTH * 2  # tokens, read by the embedding; the stream, read by the head
    assert found["saved activations"] == LAYERS * layer + outside
    assert found["gathered parameters"] == 0
    # Log-probabilities in fp32, logits, labels, and the weight and the count of the targets.
    assert found["logits and loss"] == tokens * VOCAB * (4 + 2) + tokens * 8 + 4 + 4
    # Nothing is moved; gradients of the head are with the logits. Largest: up, with x, weight and result.
    assert found["transient"] == 2 * (tokens * WIDTH + HIDDEN * WIDTH + tokens * HIDDEN)
    assert found["reserved"] == H100.device.reserved_bytes


def test_data_and_tensor_parallel_by_hand():
    found = memory(decisions({"dp": 2, "tp": 2}, (DATA, *MEGATRON)))
    tokens = 2 * 8
    parameters = LAYERS * 2 * WIDTH * HIDDEN // 2 + 2 * VOCAB * WIDTH
    assert found["parameters"] == 2 * parameters
    assert found["optimizer state"] == 12 * parameters
    layer = tokens * WIDTH * 2 + tokens * HIDDEN // 2 * 2
    assert found["saved activations"] == LAYERS * layer + tokens * 8 + tokens * WIDTH * 2
    assert found["logits and loss"] == tokens * VOCAB * (4 + 2) + tokens * 8 + 4 + 4
    # The all-reduce of the embedding's gradient, in and out.
    assert found["transient"] == 2 * 2 * VOCAB * WIDTH


@pytest.mark.parametrize(
    ("precision", "each"), [("bf16", 16), ("bf16-fp32grad", 18), ("fp16", 16), ("fp32", 16), ("float64", 32)]
)
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_zero_3_divides_all_states(precision, each, degree):
    # Rajbhandari et al. 2020, table 1: 16/d bytes a parameter, and copies of what is read whole.
    stored = (ParameterDecision(target="*", axes=("dp",)),)
    found = memory(decisions({"dp": degree}, parameters=stored), precision)
    states = found["parameters"] + found["gradients"] + found["optimizer state"]
    assert states == pytest.approx(each * PARAMETERS / degree)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize(
    ("of", "cut"),
    # Table 1 of the paper: what DDP has whole, ZeRO-1 to 3 divide: the optimizer's state, gradients, parameters.
    [(None, ()), ("optimizer", ("optimizer",)), ("gradient", ("optimizer", "gradient")),
     ("storage", ("optimizer", "gradient", "storage"))],
)  # fmt: skip
def test_zero_table(of, cut, precision):
    parameters = (ParameterDecision(target="*", of=of, axes=("dp",)),) if of else ()
    training = training_graph(decisions({"dp": 4}, parameters=parameters))
    things = held(training, (), PRECISIONS[precision], H100.device)
    sizes = {
        "bf16": {"storage": 2, "gradient": 2, "optimizer": 12},
        "fp32": {"storage": 4, "gradient": 4, "optimizer": 8},
    }
    each = dict(sizes[precision])
    if precision == "fp32" and of in {"optimizer", "gradient"}:
        # No master copy, but the shard that the optimizer updates is another tensor than what is stored.
        each["optimizer"] += 4
    states = sum(t.total for t in things if t.item in ("parameters", "gradients", "optimizer state"))
    assert states == pytest.approx(PARAMETERS * sum(n / (4 if state in cut else 1) for state, n in each.items()))


def test_deferred_gradients_are_held_raw():
    """A gradient that is whole on every rank until the end of the step, and then a quarter."""
    cut = ParameterDecision(target="*", of="gradient", axes=("dp",))
    late = ParameterDecision(target="*", of="gradient", axes=("dp",), deferred=True)
    at_once, deferred = (memory(decisions({"dp": 4}, parameters=(d,)))["gradients"] for d in (cut, late))
    assert (at_once, deferred) == (2 * PARAMETERS / 4, 2 * PARAMETERS)


def test_copies_of_parameters_are_kept_or_fetched_again():
    def gathered(regather):
        stored = (ParameterDecision(target="*", axes=("dp",), regather=regather),)
        return memory(decisions({"dp": 4}, parameters=stored))["gathered parameters"]

    # Kept: what linears save, so not the embedding. Fetched again: the two weights of a layer, or one outside.
    assert gathered(False) == 2 * (LAYERS * 2 * WIDTH * HIDDEN + VOCAB * WIDTH)
    assert gathered(True) == 2 * max(2 * WIDTH * HIDDEN, VOCAB * WIDTH)


def test_activations_are_of_one_microbatch():
    whole, halves = (memory(decisions({"dp": 2}, microbatches=m, batch=8)) for m in (1, 2))
    assert halves["saved activations"] == whole["saved activations"] / 2
    assert halves["parameters"] == whole["parameters"]


def test_readers_in_different_layouts_save_a_copy_each():
    # up reads x over its width, add reads it whole: up's copy is saved once, in the layout in which it reads.
    sharded = FactorDecision(target="layers.*.up", factor="k", axes=("tp",))
    chosen = decisions({"tp": 2}, factors=(sharded,))
    training = training_graph(chosen)
    things = price(training, 1, PRECISIONS["bf16"], H100).held
    saved = {t.name: t for t in things if t.item == "saved activations" and t.scope}
    assert saved["x"].note.startswith("[-, -, tp]")
    assert saved["x"].nbytes == 4 * 8 * WIDTH // 2 * 2
    assert saved["x"].count == LAYERS


def llama(layers=2):
    """A small Llama: q, k and v read one value, and all layers read one table of rotary angles."""
    import json

    fields = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
              "num_key_value_heads": 2, "num_hidden_layers": layers, "vocab_size": 128, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "max_position_embeddings": 128, "tie_word_embeddings": False,
              "hidden_act": "silu"}  # fmt: skip
    return json.dumps(fields)


@pytest.fixture
def llama_saved(tmp_path):
    from planner.compose import train
    from planner.importers import load_model
    from planner.plan import Plan

    def saved(layers):
        file = tmp_path / "config.json"
        file.write_text(llama(layers))
        plan = Plan.new(load_model(str(file)), cluster="1x1-h100-sxm", mesh={"dp": 1}, global_batch=2, seq=16)
        priced = price(train(plan), 1, PRECISIONS["bf16"], H100)
        return [t for t in priced.held if t.item == "saved activations"]

    return saved


def test_readers_that_share_a_delivery_share_a_saved_tensor(llama_saved):
    normed = [t for t in llama_saved(2) if t.name.endswith("input_layernorm") and "read by" in t.note]
    assert [(t.nbytes, t.count) for t in normed] == [(2 * 2 * 16 * 64, 2)]


def test_what_all_layers_read_from_outside_is_saved_once(llama_saved):
    def tables(layers):
        return sorted((t.scope, t.total) for t in llama_saved(layers) if "rotary" in t.name and t.nbytes == 4 * 16 * 16)

    assert tables(2) == tables(5) == [("", 4 * 16 * 16)] * 2
