"""What lies on the host, and what goes there and back: by hand on the tiny model, and as exported code has it."""

import sys
from pathlib import Path

import pytest
from test_recompute import Imported
from tiny_model import HIDDEN, LAYERS, VOCAB, WIDTH, training_graph

from planner.compose import evaluate, export
from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions, FactorDecision, ParameterDecision, RecomputeDecision
from planner.cost import price
from planner.hardware import HARDWARE, PRECISIONS, cluster
from tests.tiny import tiny_graph, tiny_plan

H100 = cluster("1x8-h100-sxm")
HOST = H100.device.host
LINK = HOST.bandwidth * HOST.efficiency
LAYER, REST = 2 * WIDTH * HIDDEN, 2 * VOCAB * WIDTH
PARAMETERS = LAYERS * LAYER + REST
STORED = ParameterDecision(target="*", place="host")
STATE = ParameterDecision(target="*", of="optimizer", place="host")


def priced(*parameters, mesh=None, microbatches=1, recompute=(), precision="bf16"):
    chosen = Decisions(
        cluster="1x8-h100-sxm", mesh=DeviceMesh.of(mesh or {"dp": 1}), global_batch=4 * microbatches, seq=8,
        microbatches=microbatches, parameters=parameters, recompute=recompute,
        factors=(FactorDecision(target="embed", factor="batch", axes=("dp",)),) if mesh else (),
    )  # fmt: skip
    return price(training_graph(chosen), microbatches, PRECISIONS[precision], H100)


def seconds(found, phase, what):
    return sum(t.total for t in found.transfers if (t.phase, t.what) == (phase, what))


def test_optimizer_state_by_hand():
    """ZeRO-Offload: 2 B of gradient there and 2 B of values back a parameter; Adam reads and writes 28 B there."""
    found, before = priced(STATE), priced()
    assert (before.memory["optimizer state"], found.memory["optimizer state"]) == (12 * PARAMETERS, 0)
    assert found.memory["parameters"] == before.memory["parameters"]
    assert seconds(found, "update", "gradient to the host") == pytest.approx(2 * PARAMETERS / LINK)
    assert seconds(found, "update", "new values") == pytest.approx(2 * PARAMETERS / LINK)
    assert seconds(found, "update", "update on the host") == pytest.approx(28 * PARAMETERS / HOST.memory_bandwidth)
    assert found.seconds.optimizer == 0
    assert found.seconds.exposed_host == pytest.approx(sum(t.total for t in found.transfers))
    assert found.seconds.estimate == pytest.approx(
        before.seconds.estimate - before.seconds.optimizer + found.seconds.exposed_host
    )


@pytest.mark.parametrize("microbatches", [1, 3])
def test_parameters_by_hand(microbatches):
    """Each weight is fetched forward, and again by the product that keeps it; nothing but two layers is there."""
    found = priced(STORED, STATE, microbatches=microbatches)
    assert found.memory["parameters"] == found.memory["optimizer state"] == 0
    assert found.memory["gradients"] == 2 * PARAMETERS
    assert found.memory["gathered parameters"] == 2 * (max(LAYER, VOCAB * WIDTH) + LAYER)
    assert seconds(found, "forward", "fetch") == pytest.approx(microbatches * 2 * PARAMETERS / LINK)
    # The embedding needs its table in forward only.
    again = LAYERS * LAYER + VOCAB * WIDTH
    assert seconds(found, "backward", "fetch") == pytest.approx(microbatches * 2 * again / LINK)
    assert seconds(found, "update", "new values") == 0


def test_a_segment_fetches_once_more():
    """A layer that is computed again asks for each of its weights once, and has both while it is."""
    found = priced(STORED, recompute=(RecomputeDecision(target="layers.*"),))
    assert {(t.parameter, t.count) for t in found.transfers if t.phase == "backward" and t.scope} == {
        ("layers.*.up.weight", LAYERS),
        ("layers.*.down.weight", LAYERS),
    }
    assert found.memory["recomputed activations"] == 2 * LAYER + 4 * 8 * HIDDEN * 2


def test_shards_of_zero_3_lie_on_the_host():
    """A rank fetches what it stores, a quarter; what is gathered of it is there while it is used."""
    found = priced(
        ParameterDecision(target="*", axes=("dp",), regather=True), STORED, STATE, mesh={"dp": 4}
    )  # fmt: skip
    assert seconds(found, "forward", "fetch") == pytest.approx(2 * PARAMETERS / 4 / LINK)
    assert found.memory["gathered parameters"] == 2 * (max(LAYER, VOCAB * WIDTH) + LAYER / 4)


def test_fetches_hide_behind_computation():
    parts = priced(STORED, STATE).seconds
    assert parts.hidden_host_forward == min(parts.host_forward, parts.forward)
    low, high = parts.interval
    assert low <= parts.estimate <= high
    assert high - low <= parts.communication + parts.host_forward + parts.host_backward


def test_the_trees():
    plan = tiny_plan("dp:2", ("zero3", "dp")).preset("offload_parameters")
    report = evaluate(plan)
    assert report.host is not None
    assert report.host.value == sum(child.value for child in report.host.children)
    exposed = report.step_time.child("exposed, host")
    assert exposed.value == pytest.approx(sum(child.value for child in exposed.children))
    assert report.step_time.value == pytest.approx(sum(child.value for child in report.step_time.children))
    assert evaluate(tiny_plan("dp:2", ("zero3", "dp"))).host is None


@pytest.mark.parametrize("entry", HARDWARE.values(), ids=lambda entry: entry.name)
def test_the_catalogue_has_the_host(entry):
    host = entry.device.host
    assert 0 < host.efficiency < 1
    assert host.bandwidth < entry.intra.bandwidth
    assert host.memory_bandwidth < entry.device.memory_bandwidth


@pytest.mark.parametrize("kind", ["offload_optimizer", "offload_parameters"])
def test_what_exported_code_holds_where(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    plan = tiny_plan("dp:1", graph=tiny_graph("llama", num_hidden_layers=4)).preset(kind)
    export(plan, tmp_path / "bundle")
    report = evaluate(plan)
    assert report.host is not None
    with Imported(tmp_path / "bundle") as module:
        parallel = {name: sys.modules[f"parallel.{name}"] for name in ("mesh", "parameters", "optimizer", "trainer")}
        mesh = parallel["mesh"].Mesh(module.SETTINGS.mesh)
        mesh.compute = torch.float64
        model = module.MODEL(mesh).double()
        parallel["parameters"].initialise(model, mesh, seed=0)
        list(parallel["trainer"].training(model, module.SETTINGS, mesh, steps=3, rate=1e-3, seed=0))
        updates, own = parallel["parameters"].updates_of(model), dict(model.named_parameters())
        optimizer = parallel["optimizer"].MasterAdamW(model, mesh)
        stored = {name: p for name, p in own.items() if name in updates and updates[name].place == "host"}
        masters = [part for part in optimizer.parts if part.update.state_place == "host"]
        copies = sum(part.master is not part.parameter for part in masters)
        fetcher = sys.modules["parallel.offload"].fetcher(mesh) if stored else None
    assert len(masters) == len(own)
    assert copies == (len(own) if kind == "offload_optimizer" else 0)
    held = {child.name: child.value for child in report.host.children}
    assert held.get("parameters", 0) == 8 * sum(p.numel() for p in stored.values())
    state = sum((2 + (part.master is not part.parameter)) * part.master.numel() for part in masters)
    assert held["optimizer state"] == 8 * state
    on_device = sum(p.numel() for name, p in own.items() if name not in stored)
    assert report.memory.child("parameters").value == 8 * on_device
    if fetcher is not None:
        assert 0.5 * report.memory.child("gathered parameters").value < fetcher.peak
        assert fetcher.peak <= report.memory.child("gathered parameters").value
