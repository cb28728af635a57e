"""Names for classes: one for each text, so that modules of one class whose code differs are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import wrap

from .marks import Span, joined, shifted
from .write import ClassText

WIDTH = 120


@dataclass(slots=True)
class _Class:
    """A class with its name and the modules that it is the code of."""

    name: str
    first: ClassText
    modules: list[str]
    spans: tuple[Span, ...]


@dataclass(slots=True)
class Classes:
    """The classes of a model, in the order in which they have to be defined.

    Modules share a class if their code is the same but for their own paths. Of several classes with one name in the
    model, the second is called `Name_2`, and so on.

    Parameters
    ----------
    reserved
        Names that mean something else in the file.
    names
        Scope and module path → class name.
    """

    reserved: frozenset[str]
    names: dict[tuple[int, str], str] = field(default_factory=dict)
    _classes: dict[tuple[str, str, str], _Class] = field(default_factory=dict)

    def add(self, scope: int, module: str, wanted: str, text: ClassText) -> None:
        """Name the class of a module, `wanted` if that is free."""
        code = text.text.replace(f"{module}.", "").replace(f"{module}/", "") if module else text.text
        key = (wanted, text.base, code)
        if key in self._classes:
            known = self._classes[key]
            known.modules.append(module)
            known.spans = joined(known.spans, text.spans)
        else:
            self._classes[key] = _Class(self._free(wanted), text, [module], text.spans)
        self.names[scope, module] = self._classes[key].name

    def begin(self) -> dict[tuple[int, str], str]:
        """Forget whose classes these are: modules of another part may be called alike."""
        self.names = {}
        return self.names

    def _free(self, wanted: str) -> str:
        taken = {each.name for each in self._classes.values()} | self.reserved
        if wanted in self.reserved:
            wanted = f"{wanted}Module"
        names = [wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3))]
        return next(name for name in names if name not in taken)

    def texts(self) -> Iterator[tuple[str, tuple[Span, ...]]]:
        """Yield the text of every class, and what its lines stand for in all the modules that it is the code of."""
        for each in self._classes.values():
            others = each.modules[1:]
            more = f", and {len(others) - 2} more" if len(others) > 2 else ""
            same = f"the same for {', '.join(others[:2])}{more}" if others else ""
            head = f"class {each.name}({each.first.base}):\n{_docstring(each.first.doc, same)}\n"
            yield head + each.first.text, shifted(each.spans, head.count("\n"))


def _docstring(what: str, same: str) -> str:
    """Return the lines of a class's docstring: in one line, or `same` in a paragraph of its own where it is long."""
    line = f'    """{what}{"; " if same else ""}{same}."""\n'
    if len(line) <= WIDTH or not same:
        return line
    rest = wrap(f"{same[0].upper()}{same[1:]}.", WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return f'    """{what}.\n\n' + "".join(f"    {each}\n" for each in rest) + '    """\n'
