"""Only what the loss depends on gets a gradient, although its operator could hand one back."""

from planner.compose import train
from tests.tiny import tiny_plan
from tests.zoo import zoo_graph


def test_what_leads_to_indices_only() -> None:
    """The blocks of a sharded argmax are the blocks of a top-k, which has a gradient; here it leads nowhere."""
    graph = zoo_graph()
    by_op = {node.op: node.name for node in graph.root.nodes}
    plan = tiny_plan("a:2", graph=graph).shard(by_op["argmax"], {"n": "a"}).shard(by_op["topk"], {"n": "a"})
    readers = {
        reader.node: (fanout, reader)
        for scope in train(plan).scopes
        for fanout in scope.fanouts
        for reader in fanout.readers
        if reader.node.endswith("~block_topk")
    }
    fanout, reader = readers[f"{by_op['argmax']}~block_topk"]
    assert reader.raw is None
    assert fanout.backward, "its other readers give it a gradient"
    _, reader = readers[f"{by_op['topk']}~block_topk"]
    assert reader.raw is not None
