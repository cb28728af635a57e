"""Named precisions: which element types parameters, gradients and optimizer state have.

```text
             parameters and compute   gradients   master copy and two Adam moments   bytes/parameter
bf16         2                        2           4 + 4 + 4                          16
bf16-fp32grad 2                       4           4 + 4 + 4                          18
bf16-fp32sum  2                       4           4 + 4 + 4                          18
fp16         2                        2           4 + 4 + 4                          16
fp32         4                        4           – + 4 + 4                          16
float64      8                        8           – + 8 + 8                          32
```

16 is the count of Rajbhandari et al. 2020 (ZeRO, section 3.1), 18 that of Megatron-LM, which adds gradients in fp32.
Exported training scales the loss in fp16.

In `bf16-fp32sum` whatever several ranks add up is passed and added in fp32: gradients of parameters, and the partial
results of tensor parallelism. Elsewhere partial results are added in the type that is computed in, as NCCL and gloo do
it: they round after each addition of two ranks' numbers, so that the error of a sum over a ring of n grows with √(n/2).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.plan import Precision
from ..core.tensor import DTYPE_BYTES
from ..errors import PlannerError

PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        name: Precision(name=name, compute=compute, gradient=gradient, master=master, sums=sums)
        for name, compute, gradient, master, sums in (
            ("bf16", "bfloat16", "bfloat16", "float32", "bfloat16"),
            ("bf16-fp32grad", "bfloat16", "float32", "float32", "bfloat16"),
            ("bf16-fp32sum", "bfloat16", "float32", "float32", "float32"),
            ("float64", "float64", "float64", "float64", "float64"),
            ("fp16", "float16", "float16", "float32", "float16"),
            ("fp32", "float32", "float32", "float32", "float32"),
        )
    }
)


def precision(name: str) -> Precision:
    """Return a precision by name.

    Raises
    ------
    PlannerError
        `plan.precision-unknown`.
    """
    if name not in PRECISIONS:
        raise PlannerError(
            "plan.precision-unknown",
            f"There is no precision {name!r}.",
            f"Use one of: {', '.join(PRECISIONS)}.",
            subject="precision",
        )
    return PRECISIONS[name]


def optimizer_bytes(precision: Precision) -> int:
    """Return the bytes of optimizer state per parameter: Adam's two moments, and a master copy if it differs.

    Examples
    --------
    >>> optimizer_bytes(PRECISIONS["bf16"]), optimizer_bytes(PRECISIONS["fp32"])
    (12, 8)
    """
    return (2 + has_master(precision)) * DTYPE_BYTES[precision.master]


def has_master(precision: Precision) -> bool:
    """Return whether the optimizer keeps a copy of the parameters in a type of its own."""
    return precision.master != precision.compute
