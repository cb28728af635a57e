"""What people type for presets, factors and layouts. Axes are joined by `·`, or by `+` on plain keyboards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.gradient_decision import COMPRESSIONS, REDUCTIONS, GradientDecision
from ..core.mesh import Axes
from ..core.plan import PLACES
from ..errors import PlannerError
from ..presets import PRESETS
from ..redistribution import DEFAULT_OPTIONS, SearchOptions
from ..surfaces import Counts, Side, read_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreText:
    """Where parameters, their gradients or their optimizer's state are to lie: axes, or a layout."""

    target: str
    of: str = "storage"
    axes: Axes = ()
    layout: str | None = None
    regather: bool = False
    deferred: bool = False
    place: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardText:
    """What a sharding names: factors with their axes, or counts with the side of the repetition."""

    target: str
    factors: dict[str, Axes] | Counts
    side: Side | None = None


def axes(text: str) -> Axes:
    """Read `dp`, `dp·cp` or `dp+cp`; `-` and nothing mean no axes."""
    return () if text in {"", "-"} else tuple(re.split(r"[·+]", text))


def preset(text: str) -> tuple[str, Axes]:
    """Read `megatron:tp`, or `recompute_full`, which takes no axes."""
    name, colon, rest = text.partition(":")
    if name in PRESETS and not PRESETS[name].axes and not rest:
        return name, ()
    if not (colon and name and axes(rest)):
        raise PlannerError(
            "cli.preset-syntax", f"--preset {text!r} names no mesh axis.", "Write name:axis, e.g. megatron:tp.",
            subject=text,
        )  # fmt: skip
    return name, axes(rest)


def shard(text: str) -> ShardText:
    """Read `layers.*.mlp.gate_proj n=tp batch=dp·cp`, or `lm_head ((2, 1), (4, 1)) left`."""
    match = re.fullmatch(r"(?P<target>[^\s(]+)\s+(?P<counts>\(.*\))(?:\s*(?P<side>left|right))?\s*", text.strip())
    if match is not None:
        side: Side | None = None if match["side"] is None else "left" if match["side"] == "left" else "right"
        return ShardText(target=match["target"], factors=read_counts(match["counts"]), side=side)
    target, *pairs = text.split() or [""]
    factors: dict[str, Axes] = {}
    for pair in pairs:
        factor, equals, rest = pair.partition("=")
        if not (equals and factor) or factor in factors:
            problem = f"gives {factor} twice" if factor in factors else f"has {pair!r} where factor=axes is expected"
            raise _shard_error(text, problem)
        factors[factor] = axes(rest)
    if not factors or "=" in target:
        raise _shard_error(text, "does not name a target and then factors")
    return ShardText(target=target, factors=factors)


def gradients(text: str) -> GradientDecision:
    """Read `auto overlap`, `size:25MiB bf16`, `index:8,16 sum`, or `none`: each word decides one thing, once."""
    found: dict[str, object] = {}
    for word in text.split():
        for name, value in _gradient_word(text, word).items():
            if name in found:
                raise _gradients_error(text, f"says twice what its {name.replace('_', ' ')} is")
            found[name] = value
    if not found:
        raise _gradients_error(text, "has no word")
    return GradientDecision(**found)  # type: ignore[arg-type]


def _gradient_word(text: str, word: str) -> dict[str, object]:
    head, _, rest = word.partition(":")
    if word in {"none", "auto"}:
        return {"fusion": word}
    if word in REDUCTIONS:
        return {"reduction": word}
    if word == "overlap":
        return {"overlap": True}
    if word in COMPRESSIONS:
        return {"compression": word}
    if head == "size" and (size := re.fullmatch(r"(\d{1,12})([KMG]i?)?B?", rest)):
        units = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
        return {"fusion": "size", "bucket_bytes": int(size[1]) * units[size[2] or ""]}
    if head == "index" and re.fullmatch(r"\d{1,9}(,\d{1,9})*", rest):
        return {"fusion": "index", "indices": tuple(map(int, rest.split(",")))}
    raise _gradients_error(text, f"has the word {word!r}")


def _gradients_error(text: str, problem: str) -> PlannerError:
    return PlannerError(
        "cli.gradients-syntax", f"--gradients {text!r} {problem}.",
        "Write e.g. 'auto overlap', 'size:25MiB bf16' or 'index:8,16 sum'.", subject=text,
    )  # fmt: skip


def store(text: str) -> StoreText:
    """Read `* dp regather`, `lm_head.weight [tp, -]`, `* optimizer dp host` or `* gradient deferred`."""
    match = re.fullmatch(
        r"(?P<target>\S+)(?:\s+(?P<of>gradient|optimizer)\b)?(?:\s+(?P<layout>\[.*\]))?(?P<rest>[^\[\]]*)", text.strip()
    )
    words = match["rest"].split() if match else []
    flags = []
    while words and words[-1] in {"regather", "deferred", *PLACES}:
        flags.append(words.pop())
    names = words
    places = [flag for flag in flags if flag in PLACES]
    given = match is not None and bool(match["layout"] or words or flags)
    if match is None or not given or len(names) > (0 if match["layout"] else 1) or len(places) > 1:
        raise PlannerError(
            "cli.store-syntax", f"--store {text!r} does not say which parameters are stored where.",
            "Write e.g. '* dp regather', 'lm_head.weight [tp, -]' or '* optimizer dp host'.", subject=text,
        )  # fmt: skip
    given_axes = axes(names[0]) if names else ()
    return StoreText(
        target=match["target"], of=match["of"] or "storage", axes=given_axes, layout=match["layout"],
        regather="regather" in flags, deferred="deferred" in flags, place=places[0] if places else None,
    )  # fmt: skip


def recompute(text: str) -> tuple[str, bool]:
    """Read `layers.*`, or `self_attn off`, which takes out: target, and whether it is computed again."""
    match = re.fullmatch(r"(\S+)(?:\s+(off))?", text.strip())
    if match is None:
        raise PlannerError(
            "cli.recompute-syntax", f"--recompute {text!r} does not name one target.",
            "Write e.g. 'layers.*', or 'self_attn off' to take something out.", subject=text,
        )  # fmt: skip
    return match[1], match[2] is None


def pipeline(text: str) -> tuple[str, str, int]:
    """Read `pp`, `pp:zb-h1` or `pp:interleaved-1f1b:2`: axis, schedule, stages on each rank."""
    match = re.fullmatch(r"(\w+)(?::([\w-]+)(?::(\d{1,4}))?)?", text.strip())
    if match is None:
        raise PlannerError(
            "cli.pipeline-syntax", f"--pipeline {text!r} does not name an axis and then a schedule.",
            "Write e.g. pp, pp:zb-h1 or pp:interleaved-1f1b:2.", subject=text,
        )  # fmt: skip
    return match[1], match[2] or "1f1b", int(match[3] or 0)


def stage(text: str) -> tuple[str, int]:
    """Read `layers.0-7=0`: what runs on which stage."""
    match = re.fullmatch(r"(\S+)\s*=\s*(\d{1,6})", text.strip())
    if match is None:
        raise PlannerError(
            "cli.stage-syntax", f"--stage {text!r} does not say what runs on which stage.",
            "Write e.g. 'layers.0-7=0'.", subject=text,
        )  # fmt: skip
    return match[1], int(match[2])


def keep(text: str) -> tuple[str, str, tuple[int, ...]]:
    """Read `residual_mlp tp 0,1`: target, axis, the operand that carries it in each term."""
    match = re.fullmatch(r"(\S+)\s+(\w+)\s+(\d{1,3}(?:,\d{1,3})*)", text.strip())
    if match is None:
        raise PlannerError(
            "cli.keep-syntax", f"--keep {text!r} does not name a target, an axis and operands.",
            "Write e.g. 'layers.*.residual_mlp tp 0,1', one operand position a term.", subject=text,
        )  # fmt: skip
    return match[1], match[2], tuple(int(position) for position in match[3].split(","))


def two_layouts(given: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    """Return where a redistribution starts and ends: two arguments, or the options `--from` and `--to`."""
    named = [text for text in (source, target) if text is not None]
    found = [*given, *named]
    if len(found) != 2 or len(named) == 1:
        raise PlannerError(
            "cli.two-layouts", f"A redistribution is between two layouts; {len(given)} are given as arguments, "
            f"{len(named)} by --from and --to.",
            "Write e.g. --from '[dp, tp]' --to '[tp, dp]'.",
        )  # fmt: skip
    return found[0], found[1]


def without_options(options: SearchOptions, front: bool, planner: str) -> None:
    """Check that a way to another mesh or shape, or as MindSpore plans it, asks for nothing that is not offered there.

    Raises
    ------
    PlannerError
        `cli.options-crossed`.
    """
    if front or (options != DEFAULT_OPTIONS and planner != "cheapest"):
        raise PlannerError(
            "cli.options-crossed",
            "--objective and --no-exchange are for the cheapest planner, --pareto is for one mesh and shape as well.",
            "Leave them out, or leave out --to-mesh, --to-shape and --planner.",
        )


def _shard_error(text: str, problem: str) -> PlannerError:
    return PlannerError(
        "cli.shard-syntax", f"--shard {text!r} {problem}.", "Write e.g. 'layers.*.mlp.gate_proj n=tp batch=dp'.",
        subject=text,
    )  # fmt: skip
