"""Writes constants of a program as what they are, and leaves out the calls that only fed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Program, Ref, Word, reads
from .evaluate import BY_SHAPE, name_of
from .forms import Form, Mask, Range, Uniform, Values, form_of
from .samples import Samples
from .tables import Angles, Table, angles_of, table_of

NUMBERS = frozenset({"add", "sub", "rsub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge"})
"""Operators that take a number in the place of a second operand without dims."""
SWAPPED = frozenset({"add", "mul"})
"""Of these, the ones whose operands may change places."""


def fold_constants(program: Program) -> Program:
    """Return the program with recognised constants written as what they are (see the package)."""
    samples = Samples(program)
    angles = angles_of(samples)
    found: dict[str, Form | Table] = {}
    known: dict[object, Form | Table | None] = {}
    needed = {name for call in program.calls if call.name not in samples.calls for name in reads(call)}
    needed |= set(program.outputs)
    for call in reversed(program.calls):
        if call.name not in samples.calls:
            continue
        asked = [call.result(i) for i in range(len(call.results)) if call.result(i) in needed]
        for name in asked:
            # Every layer looks at its table anew, in the same words.
            words = (call.target, call.arguments, call.keywords, call.results, name.partition(":")[2])
            if words not in known:
                known[words] = _recognised(name, samples, angles)
            form = known[words]
            if form is not None:
                found[name] = form
        if any(name not in found for name in asked) and name_of(call) not in BY_SHAPE:
            needed |= set(reads(call))
    writer = _Writer(samples, found)
    calls = tuple(made for call in program.calls for made in writer.write(call, needed))
    used = {name for call in calls for name in reads(call)}
    return replace(
        program, calls=calls, buffers=tuple(buffer for buffer in program.buffers if buffer.name in used),
        outputs=tuple(writer.renamed(name) for name in program.outputs),
    )  # fmt: skip


def _recognised(name: str, samples: Samples, angles: Sequence[Angles]) -> Form | Table | None:
    call = samples.calls[name.partition(":")[0]]
    seen = samples.of(name)
    if not seen:
        return None
    meta = samples.metas[name]
    form = form_of(meta, seen, samples.bounds(name))
    if form is None:
        return table_of(seen, angles)
    if isinstance(form, Values) and name_of(call) in BY_SHAPE:
        return None
    return form


@dataclass
class _Writer:
    samples: Samples
    found: dict[str, Form | Table]
    numbers: dict[str, float | bool] = field(default_factory=dict)
    tables: dict[tuple[object, ...], str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    made: list[Call] = field(default_factory=list)

    def renamed(self, name: str) -> str:
        """Return the name that a value has now."""
        return self.aliases.get(name, name)

    def write(self, call: Call, needed: set[str]) -> list[Call]:
        """Return what stands in the place of a call."""
        self.made = []
        if call.name not in self.samples.calls:
            call = self._from_the_front(call) if name_of(call) == "index" else call
            return [*self.made, self._with_numbers(call)]
        asked = [call.result(i) for i in range(len(call.results)) if call.result(i) in needed]
        for name in asked:
            if name in self.found:
                self._form(call, name, self.found[name])
        if any(name not in self.found for name in asked):
            self.made.append(self._with_numbers(call))
        return self.made

    def _from_the_front(self, call: Call) -> Call:
        """Return a call that indexes, with places that are counted from the back of a dim counted from its front."""
        x, indices, *rest = call.arguments
        if not isinstance(x, Ref) or not isinstance(indices, tuple):
            return call
        shape, places = self.samples.metas[x.name].shape, list(indices)
        for dim, index in enumerate(indices):
            if isinstance(index, Ref) and isinstance(size := shape[dim], int) and self._is_negative(index.name):
                meta = self.samples.metas[index.name]
                name = f"{call.name}_place_{dim}"
                self.made.append(replace(
                    call, name=name, target="aten.remainder.Scalar", arguments=(Ref(self.renamed(index.name)), size),
                    keywords=(), results=(meta,),
                ))  # fmt: skip
                places[dim] = Ref(name)
        return replace(call, arguments=(x, tuple(places), *rest))

    def _is_negative(self, name: str) -> bool:
        """Say whether a constant of integers has negative ones."""
        buffer, form = self.samples.buffers.get(name), self.found.get(name)
        if buffer is not None:
            return bool(buffer.values) and min(buffer.values or (0,)) < 0
        match form:
            case Uniform(value):
                return value < 0
            case Values(_, values):
                return min(values) < 0
        return False

    def _form(self, call: Call, name: str, form: Form | Table) -> None:
        meta = self.samples.metas[name]
        own = name.replace(":", "_")
        if own != name:
            self.aliases[name] = own
        base = replace(call, name=own, keywords=(), results=(meta,))
        match form:
            case Uniform(value):
                if not meta.shape:
                    self.numbers[name] = value
                self.made.append(replace(base, target="aten.full.default", arguments=(meta.shape, value)))
            case Range():
                self._range(base, meta, form)
            case Mask():
                given = {"window": form.window, "chunk": form.chunk}
                keywords: dict[str, Argument] = {key: value for key, value in given.items() if value}
                keywords |= {"reach": form.reach} if form.reach >= 0 else {}
                keywords |= {} if form.fill is None else {"fill": form.fill}
                target = "fused.causal_mask" if form.reach < 0 else "fused.window_mask"
                self.made.append(replace(base, target=target, arguments=(), keywords=tuple(sorted(keywords.items()))))
            case Values(shape, values):
                start = self._start(base, "fused.constant", (), TensorMeta(shape, meta.dtype), meta.shape != shape)
                self.made[-1] = replace(self.made[-1], keywords=(("values", values),))
                self._expanded(base, start, meta)
            case Table():
                self._table(base, meta, form)

    def _range(self, base: Call, meta: TensorMeta, form: Range) -> None:
        length = meta.shape[form.dim]
        line = TensorMeta((length,), "int64")
        views = len(meta.shape) > 1 or meta.dtype != "int64"
        scaled = form.step != 1 or form.start
        start = self._start(base, "aten.arange.default", (length,), line, bool(views or scaled))
        if form.step != 1:
            start = self._step(base, "mul", "aten.mul.Tensor", (Ref(start), form.step), line)
        if form.start:
            start = self._step(base, "add", "aten.add.Tensor", (Ref(start), form.start), line)
        if meta.dtype != "int64":
            line = TensorMeta((length,), meta.dtype)
            start = self._step(base, "cast", "aten.to.dtype", (Ref(start), Word(meta.dtype)), line)
        self._placed(base, start, line, (form.dim,), meta)

    def _table(self, base: Call, meta: TensorMeta, form: Table) -> None:
        """Write one of the two tables; one that has each column once is the first half of another."""
        once = dict(form.attributes).get("form") == "once"
        attributes = tuple(pair for pair in form.attributes if not once or pair[0] != "form")
        key = (attributes, form.stem)
        width = int(str(dict(attributes)["head_dim"]))
        line = TensorMeta((meta.shape[form.dims[0]], width), "float32")
        if key not in self.tables:
            self.tables[key] = f"rotary_table_{len(self.tables)}"
            self.made.append(replace(
                self.samples.calls[form.stem], name=self.tables[key], target="fused.rotary_table", arguments=(),
                keywords=attributes, results=(line, line),
            ))  # fmt: skip
        start = f"{self.tables[key]}:1" if form.sine else self.tables[key]
        if once:
            line = TensorMeta((line.shape[0], width // 2), "float32")
            start = self._step(base, "half", "aten.slice.Tensor", (Ref(start), 1, 0, width // 2), line)
        if meta.dtype != "float32":
            line = TensorMeta(line.shape, meta.dtype)
            start = self._step(base, "cast", "aten.to.dtype", (Ref(start), Word(meta.dtype)), line)
        self._placed(base, start, line, form.dims, meta)

    def _start(
        self, base: Call, target: str, arguments: tuple[Argument, ...], meta: TensorMeta, more: bool
    ) -> str:  # fmt: skip
        name = f"{base.name}_base" if more else base.name
        self.made.append(replace(base, name=name, target=target, arguments=arguments, results=(meta,)))
        return name

    def _step(self, base: Call, role: str, target: str, arguments: tuple[Argument, ...], meta: TensorMeta) -> str:
        name = f"{base.name}_{role}"
        self.made.append(replace(base, name=name, target=target, arguments=arguments, results=(meta,)))
        return name

    def _placed(self, base: Call, start: str, line: TensorMeta, dims: tuple[int, ...], meta: TensorMeta) -> None:
        """Put dims of size 1 around those of `line`, so that they become `dims` of `meta`, and expand."""
        shape: list[Size] = list(line.shape)
        for d in range(len(meta.shape)):
            if d not in dims:
                shape.insert(d, 1)
                start = self._step(
                    base,
                    f"unsqueeze_{d}",
                    "aten.unsqueeze.default",
                    (Ref(start), d),
                    TensorMeta(tuple(shape), meta.dtype),
                )
        self._expanded(base, start, meta)

    def _expanded(self, base: Call, start: str, meta: TensorMeta) -> None:
        """Let what was made last be the value, expanded if it is smaller."""
        last = self.made[-1] if self.made else None
        if last is None or last.name != start:
            self.aliases[base.name] = start
        elif last.results[0].shape == meta.shape:
            if last.target != "fused.rotary_table":
                self.made[-1] = replace(last, name=base.name)
            else:
                self.aliases[base.name] = start
        else:
            self.made.append(replace(base, target="aten.expand.default", arguments=(Ref(start), meta.shape)))

    def _with_numbers(self, call: Call) -> Call:
        """Return a call with numbers in the place of constants without dims, and names as they are now."""
        arguments = tuple(self._renamed(a) for a in call.arguments)
        keywords = tuple((key, self._renamed(value)) for key, value in call.keywords)
        if name_of(call) in NUMBERS and len(arguments) >= 2:
            first, second = arguments[:2]
            if name_of(call) in SWAPPED and isinstance(first, Ref) and first.name in self.numbers:
                first, second = second, first
            if isinstance(second, Ref) and second.name in self.numbers and isinstance(first, Ref):
                second = self.numbers[second.name]
            arguments = (first, second, *arguments[2:])
        return replace(call, arguments=arguments, keywords=keywords)

    def _renamed(self, argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(self.renamed(argument.name))
        if isinstance(argument, tuple):
            return tuple(self._renamed(part) for part in argument)
        return argument
