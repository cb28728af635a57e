"""How other systems write layouts, each way in and out; Shardwright stores none of these forms.

```text
dtensor         Shard(0), Replicate(), Partial(sum)                        torch
jax             P('dp', ('sp', 'tp'), None)                                JAX
alias_layout    Layout((2, 4), ("dp", "tp"))("dp", "None")                 MindSpore
device_layout   [2, 4] | [1, -1] | (512, 1024)                             MindSpore, matrix and map
counts          ((2, 4), (4, 1))                                           MindSpore, a strategy of an operator
```

`read_layouts` reads all of them but the last, which needs an operator: `decide` turns it into factors and axes.
"""

from __future__ import annotations

from .alias_layout import AliasLayout
from .counts import Counts, Placed, Side, place
from .decide import decide, read_counts
from .device_layout import DeviceLayout
from .dtensor import Placement
from .jax import PartitionSpec
from .read import read_holding, read_layout, read_layouts
from .shape import read_shape
from .shared import check_shared

__all__ = [
    "AliasLayout", "Counts", "DeviceLayout", "PartitionSpec", "Placed", "Placement", "Side",
    "check_shared", "decide", "place", "read_counts", "read_holding", "read_layout", "read_layouts", "read_shape",
]  # fmt: skip
