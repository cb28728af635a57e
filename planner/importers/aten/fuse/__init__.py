"""Calls become what people call them: patterns on ATen calls → calls with targets `fused.NAME`.

A pattern says what a group of calls looks like, in whatever way code writes it, and what stands in its place. It looks
at calls, shapes and numbers only, never at names of modules or classes. It fits only if nobody outside reads what is
inside, and it changes nothing but rounding: what is computed in fp32 for itself alone is in the values' own type after
it, as the operators round inside.

| target | arguments | keywords |
|---|---|---|
| `fused.rms_norm` | x [, weight] | `eps` |
| `fused.rotary` | x [B, H, S, e], cos, sin [S, r] | `pairs`, unless they are halves |
| `fused.split_heads`, `fused.merge_heads` | x | `groups`, `per_group`: heads of queries by the keys' they attend to |
| `fused.attention`, `fused.window_attention` | q, k, v | `scale` if it is not 1/√e; `softcap`; `window`, `chunk` or `reach` |
| `fused.full_attention` | q, k, v [, bias] | `scale`, `softcap` |
| `fused.sink_attention` | q, k, v, sinks | as `fused.window_attention` |
| `fused.attention_scores`, `fused.hide_future`, `fused.attend` | q, k; scores; weights, v | attention with dropout, step by step |
| `fused.swiglu`, `fused.geglu` | gate, up | `approximate` |
| `fused.route` | probabilities | `count`, `normalized` |
| `fused.place` | weights, chosen | `experts` |
| `fused.dispatch`, `fused.collect` | weights in slots, x | |
| `fused.expert_linear` | x, weight [experts, n, k] | |
| `fused.cross_entropy` | logits, labels | `ignore_index`, `label_smoothing` |

Attributes are those of the operators of the same names. Other patterns give ATen calls: rows go back to batch and
sequence, products with a weight that holds several parts become `aten.einsum` with a dim for them, activations that
are written out become `aten.gelu` and `aten.silu`, learnt positions become `aten.index_select`.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable

from ..program import Program
from .activations import ACTIVATION, GATE
from .assembled import ASSEMBLED
from .attention import ATTENTION
from .complex_pairs import as_pairs
from .experts import EXPERTS
from .head_groups import grouped
from .heads import LIFT, MERGE_HEADS, SPLIT_HEADS
from .linear import PARTED, TRANSPOSED
from .loss import CROSS_ENTROPY
from .positions import BROADCAST, POSITIONS
from .rewrite import Pattern, apply
from .rms_norm import RMS_NORM
from .rotary import PAIRED, ROTARY
from .rows import unflattened
from .views import CAST, VIEW

__all__ = ["PATTERNS", "as_pairs", "fuse"]

PATTERNS: tuple[Pattern | Callable[[Program], Program], ...] = (
    ASSEMBLED, unflattened, VIEW, TRANSPOSED, PARTED, RMS_NORM, CAST, PAIRED, ROTARY, LIFT, LIFT, SPLIT_HEADS,
    ATTENTION, MERGE_HEADS, grouped, ACTIVATION, GATE, EXPERTS, CAST, VIEW, CROSS_ENTROPY, POSITIONS, BROADCAST,
)  # fmt: skip
"""In the order in which they are tried; later ones build on what earlier ones made."""


def fuse(program: Program) -> Program:
    """Return the program with every pattern put in wherever it fits."""
    for step in PATTERNS:
        program = apply(step, program) if isinstance(step, Pattern) else step(program)
    return program
