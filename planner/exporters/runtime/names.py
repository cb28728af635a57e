"""Names of torch that differ between versions, as the newest version that was tried, 2.13.0, has them."""

from __future__ import annotations

import torch.distributed as dist

# Up to 2.12 these two are called after what they fill; 2.13 warns about those names.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
