"""Weights of the unsharded model: files in safetensors and of torch, whole and damaged, cut for any rank."""

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from planner.compose import export
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

torch = pytest.importorskip("torch")

from planner.exporters.runtime.safetensors import TYPES, read_safetensors  # noqa: E402
from tests.exporters import saving  # noqa: E402

Tensors = Mapping[str, Any]


def theirs(tensors: Tensors, path: Path) -> None:
    """Write by the library whose format it is."""
    pytest.importorskip("safetensors.torch").save_file(dict(tensors), path)


def test_every_type_reads_as_the_library_wrote_it(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"{name}.{rank}": torch.randint(0, 2, (3, 2, 5)[:rank], generator=generator).to(dtype)
        for name, dtype in TYPES.items()
        for rank in range(4)
    } | {"empty": torch.empty(0, 4), "wide": torch.randn(33, 7, generator=generator)}
    theirs(tensors, tmp_path / "some.safetensors")
    found = read_safetensors(tmp_path / "some.safetensors")
    assert found.keys() == tensors.keys()
    for name, x in tensors.items():
        assert found[name].dtype == x.dtype, name
        assert found[name].shape == x.shape, name
        assert torch.equal(found[name].to(torch.float64), x.to(torch.float64)), name


def file_of(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def entry(**changes: Any) -> bytes:
    return json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its header would end at byte 8 of 0"),
        (file_of(b"{}", length=1 << 62), "no safetensors file: its header would end"),
        (file_of(b"{]"), "header can't be read"),
        (file_of(b"[1]"), "header can't be read"),
        (file_of(b'{"x": {"dtype": "F32"}}'), "header can't be read"),
        (file_of(entry(dtype="F3"), bytes(8)), "x has the element type F3"),
        (file_of(entry(), bytes(7)), "can't lie in 0–8"),
        (file_of(entry(data_offsets=[-4, 4]), bytes(8)), "can't lie in -4–4"),
        (file_of(entry(shape=[3]), bytes(8)), "can't lie in 0–8"),
        (file_of(entry(shape=[-1, -2]), bytes(8)), "can't lie in 0–8"),
    ],
)
def test_damaged_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_safetensors(tmp_path / "bad.safetensors")


def test_an_odd_header_is_read(tmp_path: Path) -> None:
    """Tensors may lie anywhere, not only at multiples of their element's size."""
    header = entry() + b" " * (-len(entry()) % 8 + 3)
    values = torch.tensor([1.5, -2.0])
    (tmp_path / "odd.safetensors").write_bytes(file_of(header, values.numpy().tobytes()))
    assert torch.equal(read_safetensors(tmp_path / "odd.safetensors")["x"], values)


def one_file(tensors: Tensors, folder: Path) -> Path:
    theirs(tensors, folder / "whole.safetensors")
    return folder / "whole.safetensors"


def many_files(tensors: Tensors, folder: Path) -> Path:
    names = sorted(tensors)
    for part in range(3):
        theirs({name: tensors[name] for name in names[part::3]}, folder / f"part-{part}.safetensors")
    return folder


def of_torch(tensors: Tensors, folder: Path) -> Path:
    torch.save(dict(tensors), folder / "whole.pt")
    return folder / "whole.pt"


def of_old_torch(tensors: Tensors, folder: Path) -> Path:
    torch.save(dict(tensors), folder / "old.bin", _use_new_zipfile_serialization=False)
    return folder / "old.bin"


GRAPHS = {
    "qwen2": tiny_graph("qwen2", tied=True, hidden_size=30, intermediate_size=50, vocab_size=33),
    "gpt2": tiny_gpt2(),
}
FORMS = {form.__name__: form for form in (one_file, many_files, of_torch, of_old_torch)}


def whole(graph: str) -> dict[str, Any]:
    """Return the original model's weights by name, in the shapes that it has."""
    config = GRAPHS[graph]
    names = {
        name: p.meta.concrete(frozenset())
        for block in config.blocks
        for p in block.parameters
        for name in ([p.name.replace("*", f"{i}") for i in range(2)] if "*" in p.name else [p.name])
    }
    found = {name: saving.whole(f"model.{name}", shape) for name, shape in names.items()}
    # GPT-2 keeps queries, keys and values in one dim.
    return {n: x.flatten(x.dim() - 2) if n.endswith(("c_attn.weight", "c_attn.bias")) else x for n, x in found.items()}


@pytest.mark.parametrize("form", [n if n == "one_file" else pytest.param(n, marks=pytest.mark.slow) for n in FORMS])
def test_ranks_take_their_parts(form: str, ranks: RankProcesses, tmp_path: Path) -> None:
    graph = "gpt2" if form == "one_file" else "qwen2"
    export(tiny_plan("dp:2,tp:2", ("zero1", "dp"), ("megatron", "tp"), graph=GRAPHS[graph]), tmp_path / "bundle")
    folder = tmp_path / "weights"
    folder.mkdir()
    path = FORMS[form](whole(graph) | {"rotary.inv_freq": torch.zeros(4)}, folder)
    answers = ranks.run(4, saving.start, tmp_path / "bundle", path)
    assert answers == [len(whole(graph))] * 4


def test_a_checkpoint_gives_its_values(ranks: RankProcesses, tmp_path: Path) -> None:
    export(tiny_plan("tp:2", ("megatron", "tp"), graph=GRAPHS["qwen2"]), tmp_path / "bundle")
    ranks.run(2, saving.write, tmp_path / "bundle", tmp_path / "saved")
    answers = ranks.run(2, saving.start, tmp_path / "bundle", tmp_path / "saved" / "step-00000005")
    assert answers == [len(whole("qwen2"))] * 2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    export(tiny_plan("dp:1", graph=GRAPHS["qwen2"]), folder)
    return folder


def no_file(tensors: Tensors, folder: Path) -> Path:
    return folder / "nothing.safetensors"


def no_weights(tensors: Tensors, folder: Path) -> Path:
    return folder


def code(tensors: Tensors, folder: Path) -> Path:
    (folder / "code.pt").write_bytes(pickle.dumps(print))
    return folder / "code.pt"


def nested(tensors: Tensors, folder: Path) -> Path:
    return of_torch({"model": dict(tensors)}, folder)


def lacking(tensors: Tensors, folder: Path) -> Path:
    return one_file(
        {n: x for n, x in tensors.items() if n != "model.norm.weight"} | {"norm.weight": torch.ones(30)}, folder
    )


def transposed(tensors: Tensors, folder: Path) -> Path:
    return one_file({n: x.t().contiguous() if n.endswith("up_proj.weight") else x for n, x in tensors.items()}, folder)


def longer(tensors: Tensors, folder: Path) -> Path:
    return one_file(
        {n: torch.stack((x, x), -1) if n.endswith("up_proj.weight") else x for n, x in tensors.items()}, folder
    )


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (longer, r"model\.layers\.0\.mlp\.up_proj\.weight has the shape \(50, 30, 2\), and \(50, 30\) here"),
        (no_file, "No such file or directory: .*nothing.safetensors"),
        (no_weights, "is no checkpoint and has no .safetensors"),
        (code, r"code\.pt can't be read as a state dict"),
        (nested, "is no state dict: it must hold tensors by name"),
        (lacking, r"has 25 of the model's 26 parameters; model\.norm\.weight is missing, and it has norm\.weight"),
        (transposed, r"model\.layers\.0\.mlp\.up_proj\.weight has the shape \(30, 50\), and \(50, 30\) here"),
    ],
)
def test_what_does_not_fit_is_named(
    form: Callable[[Tensors, Path], Path], message: str, ranks: RankProcesses, bundle: Path, tmp_path: Path
) -> None:
    path = form(whole("qwen2"), tmp_path)
    with pytest.raises(AssertionError, match=message):
        ranks.run(1, saving.start, bundle, path)
