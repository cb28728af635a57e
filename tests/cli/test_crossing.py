"""`redistribute` to another mesh, through a reshape, and by MindSpore's planner."""

from pathlib import Path

import pytest

from .command import answer, shardwright

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
MESHES = ("--mesh", "a:3,b:8", "--to-mesh", "c:8,d:3", "--shape", "24x24")
MATRICES = ("[4, 2] | [1, 0]", "[8] | [0, -1]", "--mesh", "a:8", "--shape", "32x64")
TEXTS = {
    "redistribute-to-mesh": ("redistribute", "[a, b]", "[c, d]", *MESHES),
    "redistribute-to-shape": (
        "redistribute", "[dp, tp, -]", "[dp, tp]", "--mesh", "dp:2,tp:4", "--shape", "8,2048,4096",
        "--to-shape", "16384,4096",
    ),
    "redistribute-mindspore": ("redistribute", *MATRICES, "--planner", "mindspore", "--steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name, golden):
    ran = shardwright(*TEXTS[name])
    assert (ran.code, ran.err) == (0, "")
    golden(f"cli/{name}.txt", ran.out)


def test_json():
    found = answer(*TEXTS["redistribute-to-mesh"])
    assert [leg["kind"] for leg in found["legs"]] == ["handover"]
    assert found["received_bytes"] == found["bound_bytes"] == 24 * 2
    assert found["states"][-1]["slices"][9] == [[9, 12], [0, 8]]
    assert found["target"] == {"layout": "[c, d]", "mesh": "c:8,d:3", "shape": [24, 24]}
    page = PAGE.read_text("utf-8")
    for fields in (found, found["legs"][0], found["target"]):
        assert [name for name in fields if f"`{name}`" not in page] == []


def test_mindspore_with_and_without_all_to_all():
    plain = answer(*TEXTS["redistribute-mindspore"])
    assert plain["operators"] == ["Reshape", "AllGather", "Split", "Concat", "StridedSlice", "Reshape"]
    permuted = answer("redistribute", *MATRICES, "--planner", "mindspore-alltoall")
    assert permuted["operators"] == ["Reshape", "AlltoAll", "Reshape"]
    cheapest = answer("redistribute", *MATRICES)
    assert plain["received_bytes"] > permuted["received_bytes"] == cheapest["received_bytes"] == plain["bound_bytes"]


def test_partial_sums_have_no_bound():
    """They are finished first: as shards where bytes count, whole where messages do."""
    for shape, first in (("4800x4800", "reduce_scatter"), ("24x24", "all_reduce")):
        found = answer("redistribute", "[a, -] +b", "[c, d]", *MESHES[:-1], shape)
        assert [leg["kind"] for leg in found["legs"]] == [first, "handover"]
        assert found["bound_bytes"] is None


def test_objectives():
    def kinds(*options: str) -> list[str]:
        found = answer("redistribute", "[a, -] +b", "[c, d]", *MESHES, *options)
        return [leg["kind"] for leg in found["legs"]]

    assert kinds() == ["all_reduce", "handover"]
    assert kinds("--objective", "bytes") == ["reduce_scatter", "handover"]
    assert kinds("--objective", "peak") == ["reduce_scatter", "handover"]
    assert "handover" not in kinds("--no-exchange")
    reshaped = ("redistribute", "[a·b, -]", "[b·a]", "--mesh", "a:2,b:4", "--shape", "8x8", "--to-shape", "64")
    assert [leg["kind"] for leg in answer(*reshaped, "--objective", "bytes")["legs"]] == ["permute", "view"]


def test_nothing_to_move():
    same = ("redistribute", "[a]", "[a]", "--mesh", "a:2", "--shape", "4", "--planner", "mindspore")
    assert answer(*same)["legs"] == []
    assert "Nothing has to move." in shardwright(*same).out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("[a, b]", "[c, d]", *MESHES, "--planner", "mindspore"), "mindspore.no-divisor-chain"),
        (("[a, -] +b", "[c, d]", *MESHES, "--planner", "mindspore"), "surface.partial-inexpressible"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "6", "--planner", "mindspore"), "mindspore.map-divides"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--planner", "mindspore", "--dtype", "bool"),
         "mindspore.bool"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--planner", "mindspore", "--objective", "bytes"),
         "cli.options-crossed"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--to-shape", "2x4", "--pareto"), "cli.options-crossed"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--planner", "best"), "redistribution.planner-unknown"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--to-shape", "9"), "reshape.elements"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--to-mesh", "b:8"), "mesh.matrix-ranks"),
        (("[a]", "[a]", "--mesh", "a:4", "--shape", "8", "--to-mesh", "b:4"), "mesh.axis-unknown"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--to-shape", "2x"), "surface.shape-syntax"),
        (("[a]", "[-]", "--mesh", "a:4", "--shape", "8", "--to-shape", "2x4"), "layout.rank-mismatch"),
    ],
)  # fmt: skip
def test_refusals(arguments: tuple[str, ...], code: str):
    ran = shardwright("redistribute", *arguments, "--json")
    assert (ran.code, ran.json["code"]) == (2, code)
