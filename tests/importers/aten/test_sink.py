"""What reads nothing stands where it is read, and layers with buffers are found to be equal."""

from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.aten.sink import sink
from planner.importers.builder import BlockBuilder


def test_a_constant_goes_to_its_first_reader_of_its_module() -> None:
    build = BlockBuilder()
    x = build.input("x", TensorMeta((symbol("B"), 4)))
    for i in (0, 1):
        build.node(f"layers.{i}/bias", "full", attributes={"sizes": "4", "value": 0.5, "dtype": "compute"})
    build.node("table", "full", attributes={"sizes": "4", "value": 1.0, "dtype": "compute"})
    for i in (0, 1):
        (x,) = build.node(f"layers.{i}/add", "add", x, f"layers.{i}/bias")
        (x,) = build.node(f"layers.{i}/mul", "mul", x, "table")
    block = build.block(x)
    found = sink(block)
    assert [node.name for node in found.nodes] == [
        "table", "layers.0/bias", "layers.0/add", "layers.0/mul", "layers.1/bias", "layers.1/add", "layers.1/mul",
    ]  # fmt: skip
    assert sink(found) == found
    assert set(found.body) == set(block.body)
