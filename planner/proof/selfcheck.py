"""The part of a bundle that repeats the proof where the bundle is: `selfcheck.py`, and the models that it compares.

A plan that is small enough is checked as it is exported: `selfcheck.py` runs the bundle's own `model.py` and compares
it with the unsharded model in `check/whole`. Of another, `check/sharded` has the same decisions at reduced sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import fill

from ..compose import bundle, shrink_way
from ..core.units import format_bytes
from ..errors import PlannerError, ProofError
from ..exporters.explicit.bundle import runtime_of
from ..plan import Plan
from .reference import unsharded
from .shrink import LARGEST_WORLD, needed_bytes, shrink, uncovered

OWN_BYTES = 256 << 20
"""Memory that a check may need for a plan to be checked at its own sizes."""


def selfcheck_files(plan: Plan, files: Mapping[str, str]) -> dict[str, str]:
    """Return what a bundle carries to check itself, as path → text.

    Parameters
    ----------
    files
        The bundle of the plan.
    """
    try:
        small = plan if _is_small(plan) else _shrunk(plan)
        whole = bundle(unsharded(small))
        sharded = {} if small is plan else bundle(small)
    except PlannerError as problem:
        return {"selfcheck.py": _refusal(str(problem))}
    checked = _inside("check/whole", whole) | _inside("check/sharded", sharded)
    text = _script(plan, small)
    runtime = {name: each for made in (whole, sharded) for name, each in made.items() if name.startswith("parallel/")}
    return {
        name: each
        for name, each in sorted(({"selfcheck.py": text} | checked | runtime | runtime_of([text])).items())
        if name not in files
    }


def _is_small(plan: Plan) -> bool:
    return plan.decisions.mesh.device_count <= LARGEST_WORLD and needed_bytes(plan) <= OWN_BYTES


def _shrunk(plan: Plan) -> Plan:
    """Return the plan at reduced sizes, without a trace, which would take seconds and need libraries.

    A model that would have to be traced anew keeps its sizes and gets fewer layers, like one from a file; and fewer
    ranks, with their samples, if it is too large even so.
    """
    if shrink_way(plan.graph.source) != "traced":
        return shrink(plan)
    source = replace(plan.graph.source, kind="graph")
    kept = Plan(graph=replace(plan.graph, source=source), decisions=plan.decisions)
    refused = ProofError("proof.sizes", "No number of ranks was tried.")
    for ranks in (LARGEST_WORLD, LARGEST_WORLD // 2, LARGEST_WORLD // 4):
        try:
            return shrink(kept, ranks)
        except ProofError as problem:
            refused = problem
    raise refused


def _inside(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the code of a model, in a folder; the runtime is shared, and what starts training is not needed."""
    wanted = {"model.py", "train.py", "stages.py", "schedule.csv"}
    return {f"{folder}/{name}": text for name, text in files.items() if name in wanted}


def _script(plan: Plan, small: Plan) -> str:
    own = small is plan
    what = "this bundle's model.py" if own else f"the sharded model, on the mesh {small.decisions.mesh},"
    sizes = "at its own sizes" if own else f"at reduced sizes, {small.graph.parameter_count:,} parameters"
    notes = "" if own else "".join(f"- {note}\n" for note in uncovered(plan, small))
    more = f"\n\nNot covered:\n\n{notes.rstrip()}" if notes else ""
    here = "HERE" if own else 'HERE / "check/sharded"'
    memory = format_bytes(needed_bytes(small))
    ranks = small.decisions.mesh.device_count
    return (
        f'"""Check here that {what} computes what the unsharded model does.\n\n'
        "Loss and every gradient are compared on every rank. Both run\n"
        f"{sizes}, on {ranks} rank(s) that together need about {memory} of memory:\n\n"
        f"    python selfcheck.py                                  # starts {ranks} process(es) here\n"
        f"    torchrun --nproc-per-node {ranks} selfcheck.py             # the same under torchrun\n\n"
        "Exits with 0 if all is equal up to rounding, else with 1. On as many GPUs as ranks it uses them and NCCL;\n"
        f'with --device cpu, gloo.{_wrapped(more)}\n"""\n\n'
        "from pathlib import Path\n\n"
        "from parallel.selfcheck import main\n\n"
        "HERE = Path(__file__).resolve().parent\n\n"
        'if __name__ == "__main__":\n'
        f'    main({here}, HERE / "check/whole", "{sizes}")\n'
    )


def _wrapped(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(fill(line, 116, subsequent_indent="  ") if line else "" for line in lines)


def _refusal(reason: str) -> str:
    told = _wrapped(reason.replace('"', "'").replace("\\", "/"))
    return (
        '"""Says why this bundle can not check itself."""\n\n'
        "import sys\n\n"
        f'REASON = """\\\nNo check of this plan could be made:\n{told}\n"""\n\n'
        'if __name__ == "__main__":\n'
        '    print(REASON, end="", file=sys.stderr)\n'
        "    sys.exit(2)\n"
    )
