from importlib.resources import files

import pytest

from planner.errors import PlannerError
from planner.hardware import HARDWARE, PRECISIONS, cluster, optimizer_bytes, precision
from planner.hardware.definition import parse


@pytest.mark.parametrize("entry", HARDWARE.values(), ids=str)
def test_every_number_is_sane_and_has_a_source(entry):
    assert entry.summary
    assert entry.name == entry.device.name
    for part in (entry.device, entry.intra, entry.inter):
        for name in ("efficiency", "matmul_efficiency", "memory_efficiency", "in_switch_efficiency"):
            assert 0 <= getattr(part, name, 0.5) <= 1, name
    assert 0 < entry.intra.latency_s < entry.inter.latency_s < 1e-3
    assert entry.inter.bandwidth < entry.intra.bandwidth < entry.device.memory_bandwidth
    assert 0 < entry.device.reserved_bytes < entry.device.memory_bytes
    assert "bfloat16" in dict(entry.device.peak_flops)
    assert all(len(source) > 10 for _, source in entry.sources)
    assert {"device.memory_bandwidth", "intra.bandwidth", "inter.latency_s"} <= {path for path, _ in entry.sources}


def test_each_catalogue_file_is_named_like_its_entry():
    names = [f.name.removesuffix(".toml") for f in (files("planner.hardware") / "catalog").iterdir()]
    assert sorted(names) == list(HARDWARE)


def test_h100_is_as_on_its_datasheet():
    entry = HARDWARE["h100-sxm"]
    peaks = dict(entry.device.peak_flops)
    assert (peaks["bfloat16"], peaks["float16"]) == (989.4e12, 989.4e12)
    assert (entry.device.memory_bytes, entry.device.memory_bandwidth) == (80e9, 3.35e12)
    assert (entry.intra.bandwidth, entry.inter.bandwidth) == (450e9, 50e9)
    assert "DGX H100" in entry.source("inter.bandwidth")


@pytest.mark.parametrize("text", ["[device.memory_bytes]\nvalue = 8e9", "[device]\nmemory_bytes = 8e9"])
def test_a_number_without_source_is_refused(text):
    with pytest.raises(ValueError, match=r"device\.memory_bytes.*source"):
        parse(f'name = "x"\n{text}')


@pytest.mark.parametrize(
    ("name", "nodes", "devices"), [("8x8-h100-sxm", 8, 8), ("2048x8-h100-sxm", 2048, 8), ("1x4-a100-80-sxm", 1, 4)]
)
def test_a_cluster_name_gives_nodes_and_devices(name, nodes, devices):
    spec = cluster(name)
    assert (spec.nodes, spec.devices_per_node, spec.device_count) == (nodes, devices, nodes * devices)
    assert spec.name == name
    assert spec.device is HARDWARE[name.split("-", 1)[1]].device


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (
            "h100-sxm",
            "hardware.cluster-syntax",
            "'h100-sxm' is not the name of a cluster. Write nodes × devices per node - device, e.g. 8x8-h100-sxm.",
        ),
        (
            "0x8-h100-sxm",
            "hardware.cluster-syntax",
            "'0x8-h100-sxm' is not the name of a cluster. Write nodes × devices per node - device, e.g. 8x8-h100-sxm.",
        ),
        (
            "8x8-h1000",
            "hardware.device-unknown",
            "Cluster '8x8-h1000': there is no device 'h1000'. Use one of: a100-80-sxm, b200-sxm, h100-sxm, h200-sxm.",
        ),
        (
            "2x12-h100-sxm",
            "hardware.node-size",
            "Cluster '2x12-h100-sxm': a node has 12 devices, but h100-sxm comes in nodes of at most 8. "
            "Use more nodes, e.g. 3x8-h100-sxm.",
        ),
    ],
)
def test_a_wrong_cluster_name_says_what_is_wrong_and_the_remedy(name, code, message):
    with pytest.raises(PlannerError) as caught:
        cluster(name)
    assert (caught.value.code, str(caught.value)) == (code, message)


def test_an_unknown_precision_lists_the_known():
    with pytest.raises(PlannerError) as caught:
        precision("fp8")
    assert caught.value.code == "plan.precision-unknown"
    known = "bf16, bf16-fp32grad, bf16-fp32sum, float64, fp16, fp32"
    assert str(caught.value) == f"There is no precision 'fp8'. Use one of: {known}."


@pytest.mark.parametrize(
    ("name", "parameter", "gradient", "optimizer"),
    # Rajbhandari et al. 2020, section 3.1: 2 + 2 + 12; with fp32 gradients 18.
    [
        ("bf16", 2, 2, 12), ("bf16-fp32grad", 2, 4, 12), ("bf16-fp32sum", 2, 4, 12), ("fp16", 2, 2, 12),
        ("fp32", 4, 4, 8), ("float64", 8, 8, 16),
    ],
)  # fmt: skip
def test_bytes_per_parameter(name, parameter, gradient, optimizer):
    from planner.core.tensor import DTYPE_BYTES

    chosen = PRECISIONS[name]
    assert DTYPE_BYTES[chosen.compute] == parameter
    assert DTYPE_BYTES[chosen.gradient] == gradient
    assert optimizer_bytes(chosen) == optimizer
