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


def hidden_reductions(buckets: Sequence[BucketTime], compute: float, microbatches: int) -> tuple[float, float]:
    """Return the seconds of a step's reductions that hide behind computation, if they overlap it.

    Parameters
    ----------
    buckets
        In the order in which backward completes them.
    compute
        Seconds of backward that nothing else hides behind, of all microbatches.

    Returns
    -------
    tuple[float, float]
        Of what runs after every microbatch, all of them together; and of what is deferred.
    """
    one = compute / microbatches
    of_each = _hidden([bucket for bucket in buckets if not bucket.deferred], one)
    of_deferred = max(0.0, _hidden(buckets, one) - of_each)
    return microbatches * of_each, of_deferred


def _hidden(buckets: Sequence[BucketTime], compute: float) -> float:
    count = sum(bucket.count for bucket in buckets)
    if not count:
        return 0.0
    total = sum(bucket.seconds * bucket.count for bucket in buckets)
    exposed = max(buckets[-1].seconds, total - compute * (count - 1) / count)
    return max(0.0, total - exposed)
