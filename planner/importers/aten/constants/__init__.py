"""Recognises by value what a program computes of nothing: masks, positions and rotary tables.

A call that reads neither inputs nor weights is constant. It is computed by numpy for a few sizes (`evaluate`,
`samples`), recognised by what comes out (`forms`, `tables`), and written as what it is (`fold`); the calls that only
fed it go. What is not recognised stays, and what it reads is looked at in its turn. Written are, each with the name,
shape and type of the call in whose place it stands:

| target | arguments | keywords |
|---|---|---|
| `fused.causal_mask` | | `window`, `chunk` where there is one; `fill`: what hidden keys have where others have 0, in a mask that is added to scores; without it the mask has truth values |
| `fused.window_mask` | | `reach`: how far before and after a query its keys may be; `fill` |
| `aten.full.default` | sizes, value | also for masks that hide nothing |
| `aten.arange.default` | size | `aten.mul`, `aten.add` of a number and `aten.to.dtype` follow as needed |
| `fused.rotary_table` | | the attributes of the operator `rotary_table`; cosines and sines, [S, width] in float32 |
| `fused.constant` | | `values` in row-major order |

`aten.unsqueeze.default`, `aten.expand.default` and `aten.to.dtype` bring these to the shape and type that is read; the
type is that of the call's result. Numbers without dims are written into the calls that take one.
"""  # noqa: E501

from .fold import fold_constants

__all__ = ["fold_constants"]
