"""Time the two forms of exported code beside each other, and count what they compute and pass.

Both bundles of one plan (Megatron with sequence parallelism over 2, data parallel over 2) train the same model on four
processes joined by gloo. A run is some optimizer steps of one form and then of the other; which goes first alternates,
so that what else the machine does meets both alike. FLOPs and collectives are counted by torch where it dispatches
operators, for both in the same way.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import planner
from planner.plan import Plan
from planner.proof.native import Collectives
from planner.proof.worker import import_bundle

PAGE = Path(__file__).with_name("forms.md")
RUNS, STEPS, RANKS = 9, 3, 4
FORMS = ("explicit", "native")
CONFIG = {
    "model_type": "llama", "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}  # fmt: skip
Step = Callable[[], None]


class Flops(TorchDispatchMode):
    """Counts what this rank computes: of a DTensor's operator, the one on the shard, and not the whole one."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and add its FLOPs."""
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        result = function(*args, **(kwargs or {}))
        formula = flop_registry.get(function._overloadpacket)
        self.total += formula(*args, **(kwargs or {}), out_val=result) if formula else 0
        return result


def plans() -> dict[str, Plan]:
    """Return the plans that are compared, by what the page calls them."""
    plan = Plan.new(
        planner.load_model(json.dumps(CONFIG)), cluster="1x4-h100-sxm", mesh="dp:2,tp:2", global_batch=8, seq=128,
        precision="fp32",
    )  # fmt: skip
    plan = plan.preset("data_parallel", axis="dp").preset("megatron", axis="tp").preset("sequence_parallel", axis="tp")
    return {
        "gradients as they come": plan,
        "gradients fused and overlapped": plan.gradients(fusion="auto", overlap=True),
    }


def explicit_step(train: ModuleType) -> Step:
    """Return what trains one step of an explicit bundle."""
    trainer, parameters, optimizers = (sys.modules[f"parallel.{n}"] for n in ("trainer", "parameters", "optimizer"))
    data, mesh = sys.modules["parallel.data"], sys.modules["parallel.mesh"].Mesh(train.SETTINGS.mesh)
    model = train.MODEL(mesh)
    parameters.initialise(model, mesh, seed=0)
    optimizer = optimizers.MasterAdamW(model, mesh, weight_decay=0.1)
    batch = data.synthetic_batch(0, train.SETTINGS.inputs, seed=0)

    def step() -> None:
        trainer.loss_of_step(model, batch, train.SETTINGS, mesh)
        optimizer.step(1e-3)

    return step


def native_step(train: ModuleType) -> Step:
    """Return what trains one step of a native bundle."""
    native, spread = sys.modules["parallel.native"], sys.modules["parallelize"]
    mesh = spread.device_mesh("cpu")
    model = native.built(train.MODEL, spread.parallelize, mesh, torch.float32)
    native.initialise(model, train.SETTINGS, seed=0)
    optimizer = native.adamw(model, 1e-3)
    batch = sys.modules["parallel.data"].synthetic_batch(0, train.SETTINGS.inputs, seed=0)

    def step() -> None:
        native.loss_of_step(model, batch, train.SETTINGS, mesh)
        optimizer.step()
        optimizer.zero_grad()

    return step


def rank(number: int, folder: str) -> None:
    """Run one rank; rank 0 writes what it found to the folder."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=number, world_size=RANKS)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    steps, counts = {}, {}
    for form, make in zip(FORMS, (explicit_step, native_step), strict=True):
        train = import_bundle(Path(folder) / form)
        for module in ("optimizer", "trainer") if form == "explicit" else ():
            importlib.import_module(f"parallel.{module}")
        steps[form] = make(train)
        steps[form]()
        # torch takes a step to give operators that it has not met their strategies.
        with Collectives(mesh) as log, Flops() as flops:
            steps[form]()
        counts[form] = counted(log, flops.total)
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    for run in range(RUNS):
        for form in FORMS if run % 2 else FORMS[::-1]:
            dist.barrier()
            start = perf_counter()
            for _ in range(STEPS):
                steps[form]()
            dist.barrier()
            times[form].append((perf_counter() - start) / STEPS)
    if not number:
        Path(folder, "found.json").write_text(json.dumps({"times": times, "counts": counts}), "utf-8")
    dist.destroy_process_group()


def counted(log: Collectives, flops: int) -> dict[str, Any]:
    """Return FLOPs, and per kind and axes how many collectives with how many bytes in the larger of both ends."""
    number: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for kind, axes, before, after in log.found:
        key = f"{kind} over {'·'.join(axes)}"
        number[key] += 1
        passed[key] += max(before, after)
    return {"flops": flops, "number": number, "bytes": passed}


def measured(plan: Plan) -> dict[str, Any]:
    """Return what rank 0 found of both forms of a plan."""
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            planner.export(plan, f"{folder}/{form}", form)
        multiprocessing.spawn(rank, (folder,), RANKS)
        found: dict[str, Any] = json.loads(Path(folder, "found.json").read_text("utf-8"))
        return found


def table(name: str, found: dict[str, Any]) -> str:
    """Return the part of the page on one plan."""
    times, counts = found["times"], found["counts"]
    ratios = [a / b for a, b in zip(*(times[form] for form in FORMS), strict=True)]
    lines = [f"## {name[0].upper()}{name[1:]}", ""]
    lines += ["| | explicit | native | ratio |", "|---|---:|---:|---:|"]
    middle = [statistics.median(times[form]) * 1e3 for form in FORMS]
    ratio = statistics.median(ratios)
    lines.append(f"| step, ms, median of {RUNS} runs | {middle[0]:.0f} | {middle[1]:.0f} | {ratio:.2f} |")
    lines.append(f"| smallest and largest ratio of a run | | | {min(ratios):.2f} … {max(ratios):.2f} |")
    flops = [counts[form]["flops"] for form in FORMS]
    lines.append(f"| FLOPs of a rank's step | {flops[0]:,} | {flops[1]:,} | {flops[0] / flops[1]:.3f} |")
    for key in sorted({key for form in FORMS for key in counts[form]["bytes"]}):
        cells = [f"{counts[f]['bytes'].get(key, 0):,} in {counts[f]['number'].get(key, 0)}" for f in FORMS]
        lines.append(f"| {key}, bytes | {cells[0]} | {cells[1]} | |")
    total = [sum(counts[form]["bytes"].values()) for form in FORMS]
    lines.append(f"| all collectives, bytes | {total[0]:,} | {total[1]:,} | {total[0] / total[1]:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the page and write it."""
    parts = [table(name, measured(plan)) for name, plan in plans().items()]
    load = os.getloadavg()[0]
    head = (
        "# The two forms of exported code\n\n"
        "`python -m benchmarks.forms` writes this page. Llama with 3 layers of width 256, 8 sequences of 128\n"
        "tokens, fp32, Megatron with sequence parallelism over `tp:2`, data parallel over `dp:2`, 4 processes joined\n"
        f"by gloo on {os.cpu_count()} CPUs, load average {load:.0f}. A run is {STEPS} steps of each; the ratio is\n"
        "explicit / native, the median of those of the runs; the target is at most 1.10. Bytes are those of the\n"
        "larger end of each collective, on rank 0.\n\n"
    )
    notes = (
        "\n\nBoth compute the same products. What differs between the collectives is the gradients of the norms: the\n"
        "plan reduces them over both axes at once, torch over one after the other.\n"
    )
    text = head + "\n\n".join(parts) + notes
    print(text)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
