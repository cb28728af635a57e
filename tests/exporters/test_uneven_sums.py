"""Sums of unequal parts are added in float32 where elements are shorter."""

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
