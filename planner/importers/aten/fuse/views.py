"""Views of views, and casts to the type that a value has, which change nothing."""

from __future__ import annotations

from dataclasses import replace

from ..program import Argument, Call, Ref
from .calls import Calls, base
from .rewrite import Pattern, Replacement

_VIEWS = frozenset({"view", "reshape", "_unsafe_view"})


def _view(calls: Calls, root: Call) -> Replacement | None:
    shape = root.results[0].shape
    made: Call | None = root
    source: Argument = Ref(root.name)
    while made is not None and base(made.target) in _VIEWS:
        source = made.arguments[0]
        made = calls.maker(source)
    assert isinstance(source, Ref)
    if calls.shape(source) == shape:
        return Replacement(calls=(), renamed={root.name: source.name})
    if source == root.arguments[0]:
        return None
    return Replacement(calls=(replace(root, arguments=(source, shape)),))


def _cast(calls: Calls, root: Call) -> Replacement | None:
    source = root.arguments[0]
    if not isinstance(source, Ref) or not calls.is_cast(root):
        return None
    if calls.meta(source) == root.results[0]:
        return Replacement(calls=(), renamed={root.name: source.name})
    return None


VIEW = Pattern(name="view", roots=_VIEWS, rewrite=_view)
CAST = Pattern(name="cast", roots=frozenset({"to", "_to_copy", "type_as"}), rewrite=_cast)
