"""The roofline, worked by hand on a device of round numbers: 100 TFLOP/s at half, 1 TB/s at 0.8, 5 µs floor."""

import pytest
from tiny_model import node

from planner.core.cluster import DeviceSpec, HostSpec
from planner.core.layout import Layout
from planner.core.tensor import TensorMeta
from planner.cost.compute import (
    backward_time,
    forward_time,
    kernel_seconds,
    optimizer_seconds,
    optimizer_traffic,
    peak_flops,
)
from planner.cost.work import LocalTensor, NodeWork, itemsize
from planner.errors import PlannerError
from planner.hardware import PRECISIONS
from planner.ops import OPS

DEVICE = DeviceSpec(
    host=HostSpec(bandwidth=1e10, efficiency=0.5, memory_bandwidth=1e10),
    name="round",
    peak_flops=(("bfloat16", 100e12), ("float32", 10e12)),
    matmul_efficiency=0.5,
    memory_efficiency=0.8,
    memory_bytes=10e9,
    memory_bandwidth=1e12,
    kernel_floor_s=5e-6,
    reserved_bytes=0.0,
    op_efficiency=(("attention", 0.25),),
)
BF16 = PRECISIONS["bf16"]


def work(op: str, operands: list[tuple[int, ...]], results: list[tuple[int, ...]], gradients: tuple[int, ...], **more):
    def tensor(name: str, shape: tuple[int, ...], dtype: str = "compute") -> LocalTensor:
        layout = Layout.replicated(len(shape))
        return LocalTensor(name=name, layout=layout, shape=shape, itemsize=itemsize(dtype, BF16))

    names = OPS[op].operand_names
    metas = [
        (name, TensorMeta(shape, "int64" if name in ("tokens", "labels") else "compute"))
        for name, shape in zip(names, operands, strict=False)
    ]
    return NodeWork(
        scope=0,
        title="",
        count=1,
        node=node(op, op, metas, **more),
        op=OPS[op],
        operands=tuple(tensor(name, meta.shape, meta.dtype) for name, meta in metas),
        results=tuple(tensor(f"result{i}", shape) for i, shape in enumerate(results)),
        gradients=gradients,
    )


def linear(tokens: int, into: int, out: int) -> NodeWork:
    return work("linear", [(1, tokens, into), (out, into)], [(1, tokens, out)], (0, 1))


def test_kernel_is_bound_by_arithmetic_memory_or_launch():
    # 1 TFLOP at 50 TFLOP/s: 20 ms; 80 GB at 0.8 TB/s: 100 ms; nothing: 5 µs.
    assert kernel_seconds(1e12, 1e9, 100e12, 0.5, DEVICE) == pytest.approx(20e-3)
    assert kernel_seconds(1e12, 80e9, 100e12, 0.5, DEVICE) == pytest.approx(100e-3)
    assert kernel_seconds(1e3, 1e3, 100e12, 0.5, DEVICE) == 5e-6


def test_a_large_linear_is_bound_by_arithmetic():
    kernel = forward_time(linear(8192, 4096, 4096), BF16, DEVICE)
    assert kernel.flops == 2 * 8192 * 4096 * 4096
    assert kernel.nbytes == 2 * (8192 * 4096 + 4096 * 4096 + 8192 * 4096)
    assert kernel.seconds == pytest.approx(kernel.flops / 50e12)
    back = backward_time(linear(8192, 4096, 4096), BF16, DEVICE)
    assert back.flops == 2 * kernel.flops
    # In: the result's gradient, x and weight; out: the gradients of x and weight.
    assert back.nbytes == 2 * (8192 * 4096 + 2 * (8192 * 4096 + 4096 * 4096))
    assert back.seconds == pytest.approx(2 * kernel.seconds)


def test_a_linear_of_few_tokens_is_bound_by_memory():
    kernel = forward_time(linear(8, 4096, 4096), BF16, DEVICE)
    assert kernel.seconds == pytest.approx(2 * (8 * 4096 + 4096 * 4096 + 8 * 4096) / 0.8e12)


def test_elementwise_runs_at_the_vector_peak_and_is_bound_by_memory():
    shape = (1, 8192, 4096)
    kernel = forward_time(work("add", [shape, shape], [shape], (0, 1)), BF16, DEVICE)
    assert (kernel.peak, kernel.efficiency) == (10e12, 1.0)
    assert kernel.seconds == pytest.approx(3 * 2 * 8192 * 4096 / 0.8e12)
    # Its backward hands the gradient on.
    assert backward_time(work("add", [shape, shape], [shape], (0, 1)), BF16, DEVICE).seconds == 0


def test_attention_has_an_efficiency_of_its_own():
    q, kv = (1, 8, 4096, 128), (1, 8, 4096, 128)
    kernel = forward_time(work("attention", [q, kv, kv], [q], (0, 1, 2)), BF16, DEVICE)
    # Two products of 2·8·4096²·128, half of them skipped.
    assert kernel.flops == 2 * 8 * 4096**2 * 128
    assert kernel.seconds == pytest.approx(kernel.flops / 25e12)


def test_a_table_is_read_only_where_rows_are_picked():
    kernel = forward_time(work("embedding", [(1, 64), (100_000, 512)], [(1, 64, 512)], (1,)), BF16, DEVICE)
    assert kernel.nbytes == 8 * 64 + 2 * (2 * 64 * 512)


def test_a_view_takes_no_time():
    split = work("split_heads", [(1, 64, 512)], [(1, 8, 64, 64)], (0,), groups=2, per_group=4)
    assert forward_time(split, BF16, DEVICE).seconds == backward_time(split, BF16, DEVICE).seconds == 0


def test_a_node_without_gradient_has_no_backward_and_saves_nothing():
    idle = work("linear", [(1, 64, 512), (512, 512)], [(1, 64, 512)], ())
    assert backward_time(idle, BF16, DEVICE).seconds == 0
    assert idle.saved == ()
    assert idle.extra_saved_bytes == 0


def test_a_type_without_peak_is_refused():
    with pytest.raises(PlannerError) as caught:
        peak_flops("float64", DEVICE)
    assert caught.value.code == "hardware.dtype-unsupported"
    assert str(caught.value) == (
        "The catalogue has no peak of round for float64. Use a precision that computes in one of: bfloat16, float32."
    )


@pytest.mark.parametrize(
    ("precision", "traffic"),
    # gradient + read and written (master, two moments) + written parameter
    [("bf16", 2 + 24 + 2), ("bf16-fp32grad", 4 + 24 + 2), ("fp32", 4 + 24), ("float64", 8 + 48)],
)
def test_bytes_that_an_optimizer_step_moves(precision, traffic):
    assert optimizer_traffic(PRECISIONS[precision]) == traffic


def test_optimizer_is_bound_by_memory():
    assert optimizer_seconds(28 * 1e9, DEVICE) == pytest.approx(35e-3)
