"""The answer of `prove` for people."""

from __future__ import annotations

from ..proof import TOLERANCE, Proof
from .door import heading
from .table import columns

_NAMED = 20
_HINTS = 5


def proof_text(proof: Proof, *, training: bool) -> str:
    """Return the whole text.

    Parameters
    ----------
    training
        Whether steps of training were compared instead of one step's gradients.
    """
    compared = "parameter after training" if training else "gradient of"
    rows = [(row.name, f"{row.error:.1e}", f"{row.rank}", "ok" if row.ok else "WRONG") for row in proof.rows]
    verdict = "PROVEN" if proof.ok else "NOT PROVEN"
    lines = [
        f"{heading(verdict)}  on {proof.mesh.device_count} ranks ({proof.mesh}), at reduced sizes, in float64; "
        f"relative errors up to {TOLERANCE:g} pass",
        "",
    ]
    if rows:
        lines += columns([(compared, "largest error", "on rank", ""), *rows], "<>><")
        lines.append("")
    lines += [f"look here: {hint}" for hint in dict.fromkeys(row.hint for row in proof.rows if row.hint)][:_HINTS]
    lines += [f"failed: {' '.join(failure.split())}" for failure in proof.failures]
    lines += _collectives(proof)
    lines += [f"not covered: {note}" for note in proof.uncovered] or ["not covered: no collective of the plan"]
    return "\n".join(lines)


def _collectives(proof: Proof) -> list[str]:
    if proof.failures:
        return ["collectives: not compared, since ranks failed"]
    if not proof.collectives:
        return ["collectives: every rank executed exactly the planned ones"]
    shown = [f"collectives: {difference}" for difference in proof.collectives[:_NAMED]]
    more = len(proof.collectives) - _NAMED
    return [*shown, f"collectives: and {more} more"] if more > 0 else shown
