r"""What of the reductions of gradients hides behind the computation of backward.

```text
exposed = max(last, G − C·(k−1)/k)
```

One pass of backward computes for C seconds and makes k buckets ready at even distances; they are reduced one after the
other in G seconds, the last one in `last`. The first can start at C/k, so they end at C/k + G if they are what takes
longer, and at C + last at the earliest (Li et al. 2020, PyTorch Distributed, section 3.2.3). Every microbatch has such
a pass; what is deferred joins that of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from .buckets import BucketTime


def hidden_reductions(buckets: Sequence[BucketTime], compute: float, microbatches: int) -> float:
    """Return the seconds of a step's reductions that hide behind computation, if they overlap it.

    Parameters
    ----------
    buckets
        In the order in which backward completes them.
    compute
        Seconds of backward that nothing else hides behind, of all microbatches.
    """
    each = [bucket for bucket in buckets if not bucket.deferred]
    one = compute / microbatches
    return (microbatches - 1) * _hidden(each, one) + _hidden(buckets, one)


def _hidden(buckets: Sequence[BucketTime], compute: float) -> float:
    count = sum(bucket.count for bucket in buckets)
    if not count:
        return 0.0
    total = sum(bucket.seconds * bucket.count for bucket in buckets)
    exposed = max(buckets[-1].seconds, total - compute * (count - 1) / count)
    return max(0.0, total - exposed)
