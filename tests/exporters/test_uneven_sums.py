"""Sums of short elements: those of unequal parts are added in float32, others where the plan says so."""

from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("dtype", "sum_of"), [("bfloat16", 264.0), ("float32", 263.0), ("int64", 263)])
def test_short_elements_are_added_in_float32(dtype: str, sum_of: float) -> None:
    """In bfloat16, 256 + 1 is 256 again: one after the other the seven ones would be lost."""
    from planner.exporters.runtime.uneven import ReduceParts

    parts = [torch.tensor([value], dtype=getattr(torch, dtype)) for value in (256, 1, 1, 1, 1, 1, 1, 1)]
    total = ReduceParts("[-] +a", "[a]", (9,), ("a",))._reduced(parts)
    assert total.to(parts[0].dtype).item() == sum_of
    assert parts[0].item() == 256


@pytest.mark.parametrize(("dtype", "sum_of"), [("", 256.0), ("float32", 264.0)])
@pytest.mark.parametrize("kind", ["AllReduce", "ReduceScatter"])
def test_equal_parts_are_added_in_the_type_that_the_plan_says(kind: str, dtype: str, sum_of: float) -> None:
    """On ranks that round after each addition, as NCCL's and gloo's do; the log has the bytes that are passed."""
    from tests.proof.threads import DISTRIBUTED, here, runtime

    steps, meshes = runtime()["parallel.steps"], runtime()["parallel.mesh"]
    DISTRIBUTED.groups.clear()

    def rank(number: int) -> tuple[list[float], str, list[tuple[object, ...]]]:
        here.rank, here.world = number, 8
        mesh = meshes.Mesh({"a": 8})
        mesh.log = []
        step = getattr(steps, kind)(axes=("a",), dtype=dtype, **({"dim": 0} if kind == "ReduceScatter" else {}))
        out = step(torch.full((8,), 256.0 if number == 0 else 1.0, dtype=torch.bfloat16), mesh)
        return out.tolist(), str(out.dtype), mesh.log

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(rank, range(8)))
    parts, each = (8 if kind == "AllReduce" else 1), (4 if dtype else 2)
    logged = [("all_reduce" if kind == "AllReduce" else "reduce_scatter", ("a",), 8 * each, parts * each)]
    assert found == [([sum_of] * parts, "torch.bfloat16", logged)] * 8
