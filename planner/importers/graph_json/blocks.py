"""Reads blocks: each name once, each operand before its use, shapes and rules by the table `OPS`."""

from __future__ import annotations

from ...core.graph import Attribute, Block, Node, Parameter, Repeat, Value
from ...core.layers import list_of, templates
from ...core.symbol import Polynomial
from ...core.tensor import TensorMeta
from ...errors import PlannerError
from ...ops import OPS
from ..entries import Entry
from .form import MAX_COUNT, MAX_ITEMS, MAX_TEXT, from_plain

# What functions of the operator table raise on operands and attributes that they do not expect.
_MISFIT = (PlannerError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError, RecursionError)
_BLOCK = ("inputs", "parameters", "body", "outputs")
_MAX_OPERANDS = 10_000
INITIAL = ("normal", "ones", "zeros", "frozen", "given")

Metas = dict[str, TensorMeta]


class BlockReader:
    """Reads the root and the blocks in it.

    Parameters
    ----------
    modules
        Paths of all modules.

    Attributes
    ----------
    metas
        Values and parameters of the root, once it was read.
    """

    def __init__(self, modules: frozenset[str]) -> None:
        self.modules = modules
        self.metas: Metas = {}
        self.items = 0
        self.operators: set[str] = set()
        self.parameters: set[str] = set()

    def root(self, entry: Entry) -> Block:
        """Return the root block."""
        block = self._block(entry, (), self.metas)
        outputs = entry.members(_BLOCK)["outputs"]
        if not block.outputs:
            outputs.refuse("has no output, so no loss", "Name the loss first.", code="model.graph-loss")
        loss = self.metas[block.outputs[0]]
        if loss.shape:
            outputs.refuse(
                f"starts with {block.outputs[0]!r} of {loss}, which is no scalar",
                "Name the loss first.",
                code="model.graph-loss",
            )
        return block

    def _block(self, entry: Entry, layers: tuple[str, ...], metas: Metas) -> Block:
        members = entry.members(_BLOCK)
        inputs = tuple(self._input(item, metas) for item in self._counted(members["inputs"]))
        parameters = tuple(self._parameter(item, layers, metas) for item in self._counted(members["parameters"]))
        body = tuple(self._item(item, layers, metas) for item in self._counted(members["body"]))
        outputs = tuple(_known(item, metas) for item in members["outputs"].items())
        return Block(inputs=inputs, parameters=parameters, body=body, outputs=outputs)

    def _counted(self, entry: Entry) -> list[Entry]:
        items = entry.items()
        self.items += len(items)
        if self.items > MAX_ITEMS:
            entry.refuse(
                f"makes {self.items:,} operators, parameters and inputs",
                f"Give at most {MAX_ITEMS:,}.",
                code="model.too-large",
            )
        return items

    def _input(self, entry: Entry, metas: Metas) -> Value:
        name, meta = entry.tuple_of(2, 'a name and its meta, such as ["tokens", "int64[B, S]"]')
        value = Value(name=name.name(), meta=meta.meta())
        _define(name, value, metas)
        return value

    def _parameter(self, entry: Entry, layers: tuple[str, ...], metas: Metas) -> Parameter:
        name, meta, initial = entry.tuple_of(3, 'such as ["norm.weight", "compute[4096]", "ones"]')
        parameter = Parameter(name=name.name(), meta=meta.meta(), initial=initial.text())
        if any(isinstance(size, Polynomial) for size in parameter.meta.shape):
            meta.refuse(f"is a parameter of {parameter.meta}", "Give sizes that are integers.", code="model.graph-size")
        if parameter.initial not in INITIAL:
            initial.refuse(f"is {parameter.initial!r}", f"Use {', '.join(INITIAL)}.")
        _once(name, parameter.name, layers, self.parameters)
        self._of_module(name, parameter.name.rpartition(".")[0])
        _define(name, Value(name=parameter.name, meta=parameter.meta), metas)
        return parameter

    def _of_module(self, entry: Entry, path: str) -> None:
        if path not in self.modules:
            entry.refuse(
                f"is of the module {path!r}, which is not listed", "Add it to modules.", code="model.graph-name"
            )

    def _item(self, entry: Entry, layers: tuple[str, ...], metas: Metas) -> Node | Repeat:
        if isinstance(entry.value, dict) and "repeat" in entry.value:
            if layers:
                entry.refuse("is a repeat within a repeat", "Write its layers out.", code="model.graph-repeat")
            return self._repeat(entry, metas)
        return self._node(entry, layers, metas)

    def _node(self, entry: Entry, layers: tuple[str, ...], metas: Metas) -> Node:
        members = entry.members(("name", "op", "operands"), ("results", "attributes", "module", "origin"))
        name, op = members["name"].name(), members["op"].text()
        _once(members["name"], name, layers, self.operators)
        if op not in OPS:
            members["op"].refuse(
                f"is {op!r}, no known operator", "docs/reference/operators.md lists them.", code="model.graph-name"
            )
        module = members["module"].name(empty=True) if "module" in members else name.partition("/")[0]
        self._of_module(members.get("module", members["name"]), module)
        operands = _operands(members["operands"], metas)
        attributes = _attributes(members["attributes"]) if "attributes" in members else ()
        node = Node(
            name=name, op=op, operands=operands, attributes=attributes, module=module,
            origin=members["origin"].name() if "origin" in members else "",
            **_inferred(entry, op, tuple(metas[v] for v in operands), name, dict(attributes)),  # type: ignore[arg-type]
        )  # fmt: skip
        if "results" in members:
            _check_results(members["results"], node.results)
        for value in node.results:
            _define(entry, value, metas)
        return node

    def _repeat(self, entry: Entry, metas: Metas) -> Repeat:
        members = entry.members(("repeat", "count", "block", "operands"))
        name, count = members["repeat"].name(), members["count"].integer(1, MAX_COUNT)
        _once(members["repeat"], name, (), self.operators)
        layers = list_of(name)[1]
        if layers and layers.count % count:
            members["count"].refuse(
                f"runs {count} times through {layers.count} layers", "Give a divisor.", code="model.graph-repeat"
            )
        operands = _operands(members["operands"], metas)
        inner: Metas = {}
        block = self._block(members["block"], templates(name, layers.count // count if layers else 1), inner)
        carried = len(block.outputs)
        if len(operands) != len(block.inputs) or carried > len(operands):
            members["operands"].refuse(
                f"binds {len(operands)} values to {len(block.inputs)} inputs of a block with {carried} outputs",
                "Give one value an input, and as many inputs as outputs at least.", code="model.graph-repeat",
            )  # fmt: skip
        for operand, value in zip(operands, block.inputs, strict=True):
            _same(members["operands"], operand, metas[operand], value)
        for output, value in zip(block.outputs, block.inputs, strict=False):
            _same(members["block"], output, inner[output], value)
        results = tuple(
            Value(name=name if index == 0 else f"{name}:{index}", meta=value.meta)
            for index, value in enumerate(block.inputs[:carried])
        )
        for value in results:
            _define(entry, value, metas)
        return Repeat(name=name, count=count, block=block, operands=operands, results=results)


def _inferred(
    entry: Entry, op: str, operands: tuple[TensorMeta, ...], name: str, attributes: dict[str, Attribute]
) -> dict[str, object]:
    definition = OPS[op]
    needed = sum(not operand.endswith("?") for operand in definition.operands)
    if not needed <= len(operands) <= len(definition.operands):
        entry.refuse(
            f"gives {op} {len(operands)} operands", f"It takes {', '.join(definition.operands) or 'none'}.",
            code="model.graph-operator",
        )  # fmt: skip
    try:
        metas = definition.infer(operands, attributes)
        rule = definition.rule(operands, metas, attributes)
    except _MISFIT as problem:
        why = problem.diagnostic.message if isinstance(problem, PlannerError) else f"{type(problem).__name__} {problem}"
        shapes = ", ".join(map(str, operands)) or "no operand"
        entry.refuse(
            f"is a {op}, which can't take {shapes} with these attributes ({why})",
            "docs/reference/operators.md says what it takes.", code="model.graph-operator",
        )  # fmt: skip
    for meta in metas:
        entry.check_shape(meta)
    values = tuple(Value(name=name if i == 0 else f"{name}:{i}", meta=meta) for i, meta in enumerate(metas))
    return {"results": values, "rule": rule}


def _operands(entry: Entry, metas: Metas) -> tuple[str, ...]:
    items = entry.items()
    if len(items) > _MAX_OPERANDS:
        entry.refuse(f"has {len(items):,} values", f"Give at most {_MAX_OPERANDS:,}.", code="model.too-large")
    return tuple(_known(item, metas) for item in items)


def _known(entry: Entry, metas: Metas) -> str:
    name = entry.name()
    if name not in metas:
        entry.refuse(
            f"reads {name!r}, which nothing before it makes",
            "Name inputs, parameters and earlier results of the same block; a graph has no cycles.",
            code="model.graph-name",
        )  # fmt: skip
    return name


def _define(entry: Entry, value: Value, metas: Metas) -> None:
    if value.name in metas:
        entry.refuse(
            f"makes {value.name!r} again", "Give every value of a block its own name.", code="model.graph-name"
        )
    metas[value.name] = value.meta


def _once(entry: Entry, name: str, layers: tuple[str, ...], known: set[str]) -> None:
    if layers and not any(name.startswith((f"{layer}.", f"{layer}/")) for layer in layers):
        entry.refuse(
            f"is {name!r} in a block that repeats", f"Start the name with {' or '.join(layers)}.",
            code="model.graph-name",
        )  # fmt: skip
    if name in known:
        entry.refuse(
            f"uses the name {name!r} again", "Give every operator and parameter its own name.", code="model.graph-name"
        )
    known.add(name)


def _same(entry: Entry, name: str, meta: TensorMeta, value: Value) -> None:
    if meta != value.meta:
        entry.refuse(
            f"binds {name!r} of {meta} to the input {value.name!r} of {value.meta}",
            "What goes round, in and out has one shape and type.", code="model.graph-repeat",
        )  # fmt: skip


def _check_results(entry: Entry, results: tuple[Value, ...]) -> None:
    said = [item.meta() for item in entry.items()]
    if said != [value.meta for value in results]:
        right = ", ".join(str(value.meta) for value in results)
        entry.refuse(
            "are not what the operator gives", f"It gives {right}; or leave results out.", code="model.graph-operator"
        )


def _attributes(entry: Entry) -> tuple[tuple[str, Attribute], ...]:
    if not isinstance(entry.value, dict):
        entry.refuse("is no object", "Give attributes by name.")
    found: list[tuple[str, Attribute]] = []
    for key in sorted(entry.value):
        member = entry.at(key)
        if not key.isidentifier() or not key.isascii():
            entry.refuse(f"has the key {key[:40]!r}, no name of an attribute", "Write letters, digits and underscores.")
        value = from_plain(member.value)
        if value is None:
            member.refuse("is no attribute", "Give a number, a text, true, false, or a list of numbers.")
        if isinstance(value, str) and (len(value) > MAX_TEXT or not value.isprintable()):
            member.refuse("is no attribute", f"Give one line of at most {MAX_TEXT:,} characters.")
        found.append((key, value))
    return tuple(found)
