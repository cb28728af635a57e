"""What is computed again: counted by hand on the tiny model, and measured on the exported code."""

import gc
import importlib
import sys
from pathlib import Path

import pytest
from tiny_model import HIDDEN, LAYERS, VOCAB, WIDTH, training_graph

from planner.compose import evaluate, export, train
from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions, FactorDecision, ParameterDecision, RecomputeDecision
from planner.cost import price
from planner.cost.kept import saved
from planner.hardware import PRECISIONS, cluster
from planner.plan import Plan
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

H100 = cluster("1x8-h100-sxm")
TOKENS = 4 * 8


def priced(*targets: str, mesh=None, parameters=(), factors=(), microbatches=1):
    chosen = Decisions(
        cluster="1x8-h100-sxm", mesh=DeviceMesh.of(mesh or {"dp": 1}), global_batch=4 * microbatches, seq=8,
        microbatches=microbatches, parameters=parameters, factors=factors,
        recompute=tuple(RecomputeDecision(target=t) for t in targets),
    )  # fmt: skip
    return price(training_graph(chosen), microbatches, PRECISIONS["bf16"], H100)


def test_layers_by_hand():
    """A layer keeps x, and while it is computed again the hidden value, which down reads; its last add is not run."""
    found, before = priced("layers.*"), priced()
    stream, hidden = TOKENS * WIDTH * 2, TOKENS * HIDDEN * 2
    assert before.memory["saved activations"] == LAYERS * (stream + hidden) + TOKENS * 8 + stream
    assert found.memory["saved activations"] == LAYERS * stream + TOKENS * 8 + stream
    assert found.memory["recomputed activations"] == hidden
    assert "recomputed activations" not in before.memory
    assert {w.node.name for w in found.works if w.repeated} == {"layers.*.up", "layers.*.down"}
    again = sum(w.count * w.op.flops(*w.shapes) for w in found.works if w.repeated)
    assert again == LAYERS * 2 * 2 * TOKENS * WIDTH * HIDDEN
    assert found.seconds.forward == before.seconds.forward
    assert found.seconds.backward == before.seconds.backward
    assert found.seconds.recompute > 0 == before.seconds.recompute
    assert found.seconds.compute == found.seconds.forward + found.seconds.backward + found.seconds.recompute


def test_one_operator_by_hand():
    """An operator that keeps nothing but what goes in gains nothing, and what it makes is kept by who reads it."""
    found, before = priced("layers.*.up"), priced()
    assert found.memory["saved activations"] == before.memory["saved activations"]
    assert {w.node.name for w in found.works if w.repeated} == {"layers.*.up"}


def test_a_run_of_layers():
    found = priced("layers.0-1")
    stream, hidden = TOKENS * WIDTH * 2, TOKENS * HIDDEN * 2
    assert found.memory["saved activations"] == LAYERS * stream + hidden + TOKENS * 8 + stream
    assert found.memory["recomputed activations"] == hidden


@pytest.mark.parametrize("regather", [False, True])
def test_copies_of_parameters_are_let_go_with_the_layer(regather):
    """ZeRO-3 with the layers computed again fetches each weight twice, kept copies or not."""
    stored = (ParameterDecision(target="*", axes=("dp",), regather=regather),)
    data = (FactorDecision(target="embed", factor="batch", axes=("dp",)),)
    found = priced("layers.*", mesh={"dp": 4}, parameters=stored, factors=data)
    weights = 2 * 2 * WIDTH * HIDDEN
    assert found.memory["recomputed activations"] == TOKENS // 4 * HIDDEN * 2 + weights
    assert found.memory["gathered parameters"] == 2 * VOCAB * WIDTH
    fetched = [r for r in found.rows if r.kind == "all_gather" and r.scope]
    assert {(r.value, r.phase, r.again) for r in fetched} == {
        (name, phase, phase == "backward")
        for name in ("layers.*.up.weight", "layers.*.down.weight")
        for phase in ("forward", "backward")
    }
    assert {r.count for r in fetched} == {LAYERS}


def test_what_one_segment_makes_goes_into_another_only_if_that_keeps_something():
    """Without its MLP, a layer has two segments; the second is a sum, which keeps nothing and is not run again."""
    plan = tiny_plan("tp:2", ("megatron", "tp")).recompute("layers.*")
    names = {"hidden", "post_attention_layernorm", "gate_proj", "up_proj", "swiglu"}
    assert kept(plan.recompute("mlp", again=False)) == names
    # A sum that is asked to keep what goes into it gets it from the segment before, in the layout that it reads.
    assert kept(plan.recompute("mlp", again=False).recompute("residual_mlp", again=False)) == names
    assert kept(plan) == {"hidden"}


def kept(plan: Plan) -> set[str]:
    """Return the short names of the activations of the layers that stay until backward."""
    training = train(plan)
    works = price(training, 1, PRECISIONS["bf16"], plan.cluster).works
    return {held.name.replace("/", ".").rpartition(".")[2] for held in saved(training, works) if held.scope}


def test_repeated_collectives_hide_behind_what_is_repeated():
    stored = (ParameterDecision(target="*", axes=("dp",)),)
    found = priced("layers.*", mesh={"dp": 4}, parameters=stored).seconds
    assert found.hidden_backward == min(found.parameters_backward, found.backward + found.recompute)


def test_the_trees_name_it():
    report = evaluate(tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp")).recompute("layers.*"))
    again = report.step_time.child("compute, forward again")
    assert again.value == pytest.approx(sum(c.value for c in again.children))
    assert 0 < again.value < report.step_time.child("compute, forward").value
    assert report.memory.child("recomputed activations").value > 0
    assert report.step_time.value == pytest.approx(sum(c.value for c in report.step_time.children))
    plain = evaluate(tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp")))
    assert report.flops == plain.flops


# ------------------------------------------------------------ measured

GRAPHS = {
    "gpt2": lambda: tiny_gpt2(n_layer=4, n_embd=64, n_inner=160),
    "llama": lambda: tiny_graph("llama", num_hidden_layers=4, hidden_size=64, intermediate_size=160),
}
CUTS = {
    "full": ("layers|h.*",),
    "half of the layers": ("layers|h.0-1",),
    "mlp": ("mlp",),
    "attention": ("self_attn|attn",),
    "all but attention": ("layers|h.*", "-self_attn|attn"),
    # A value that one segment makes goes into another.
    "all but mlp": ("layers|h.*", "-mlp"),
    "activation": ("mlp.swiglu|act",),
}


def living(plan: Plan, folder: Path) -> int:
    """Return the bytes of all tensors that live after a forward of the exported code, parameters and inputs apart."""
    torch = pytest.importorskip("torch")
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Living(TorchDispatchMode):
        def __init__(self, apart: set[int]) -> None:
            super().__init__()
            self.apart, self.refs = apart, {}

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for storage in (x.untyped_storage() for x in tree_leaves(out) if isinstance(x, torch.Tensor)):
                if storage._cdata not in self.apart:
                    self.refs[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
            return out

    export(plan, folder)
    with Imported(folder) as train:
        parallel = {name: sys.modules[f"parallel.{name}"] for name in ("mesh", "parameters", "data")}
        mesh = parallel["mesh"].Mesh(train.SETTINGS.mesh)
        mesh.compute = torch.float64
        model = train.MODEL(mesh).double()
        parallel["parameters"].initialise(model, mesh, seed=0)
        batch = parallel["data"].synthetic_batch(0, train.SETTINGS.inputs, seed=0)
        inputs = parallel["data"].local_batch(batch, train.SETTINGS.inputs, mesh, torch.float64)
        with Living({x.untyped_storage()._cdata for x in (*model.parameters(), *inputs)}) as seen:
            loss = model(*inputs)
            gc.collect()
            size = sum(nbytes for ref, nbytes in seen.refs.values() if not ref.expired())
        loss.backward()
    return size


class Imported:
    """Import a bundle's `train`, and forget all of it afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __enter__(self):
        import torch

        self.dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        self.before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in {"model", "train", "parallel"}}
        for name in self.before:
            del sys.modules[name]
        sys.path.insert(0, self.folder)
        importlib.invalidate_caches()
        train = importlib.import_module("train")
        importlib.import_module("parallel.data")
        return train

    def __exit__(self, *_):
        import torch

        sys.path.remove(self.folder)
        for name in [n for n in sys.modules if n.partition(".")[0] in {"model", "train", "parallel"}]:
            del sys.modules[name]
        sys.modules.update(self.before)
        torch.set_default_dtype(self.dtype)


def predicted(plan: Plan) -> float:
    memory = price(train(plan), 1, PRECISIONS["float64"], plan.cluster).memory
    return memory["saved activations"] + memory["logits and loss"]


EXACT = {
    ("gpt2", "mlp"),
    ("gpt2", "activation"),
    ("gpt2", "all but attention"),
    ("llama", "mlp"),
    ("llama", "activation"),
}
"""Elsewhere, a CPU's pieces of an RMSNorm keep more than a GPU's, and attention's result is merged without a copy."""


ANCHORS = 4 * 2 * 8
"""Bytes of two scalars in float64 in each layer, which tie what is computed again to its backward."""


def norm_piece(name: str) -> int:
    """Return the bytes that the norm after the layers keeps on a CPU alone: its result before the weight."""
    return 8 * 8 * HIDDEN * 8 if name == "llama" else 0


QUICK = {("gpt2", "full"), ("llama", "mlp"), ("gpt2", "all but attention")}
# There, little falls beside what a CPU's RMSNorm keeps.
TOO_LITTLE = {("llama", "all but mlp")}
CASES = [
    pytest.param(name, cut, marks=() if (name, cut) in QUICK else pytest.mark.slow)
    for name in GRAPHS
    for cut in CUTS
    if (name, cut) not in TOO_LITTLE
]


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_measured_memory_falls_as_predicted(tmp_path: Path, name: str, cut: str) -> None:
    plan = tiny_plan("dp:1", graph=GRAPHS[name]())
    again = plan
    for target in CUTS[cut]:
        again = again.recompute(target.removeprefix("-"), again=not target.startswith("-"))
    before, after = (living(p, tmp_path / str(i)) for i, p in enumerate((plan, again)))
    tolerance = 0.01 if (name, cut) in EXACT else 0.2
    assert before - after == pytest.approx(predicted(plan) - predicted(again), rel=tolerance, abs=ANCHORS)
    if cut == "full":
        assert after - norm_piece(name) == pytest.approx(predicted(again), rel=0.05)
