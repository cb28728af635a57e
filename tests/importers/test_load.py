"""Where a model comes from: names, paths, text, and what is wrong with them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import ModelError
from planner.importers import load_model, load_source, load_zoo
from planner.importers.hf_config import MAX_BYTES
from planner.importers.zoo_models import zoo_text

TINY = zoo_text("llama-tiny")


def test_name_path_folder_and_text_give_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(TINY)
    (tmp_path / "small.json").write_bytes(b"\xef\xbb\xbf" + TINY.encode())
    named = load_model("llama-tiny")
    loaded = {
        "my-model": [folder, str(folder), folder / "config.json", str(folder / "config.json")],
        "small": [str(tmp_path / "small.json")],
        "the config": [TINY, "\n" + TINY],
    }
    for name, sources in loaded.items():
        for source in sources:
            graph = load_model(source)
            assert graph.name == graph.source.name == name
            assert (graph.root, graph.source.digest) == (named.root, named.source.digest)


def code_of(source: str | Path) -> tuple[str, str]:
    with pytest.raises(ModelError) as caught:
        load_model(source)
    return caught.value.code, str(caught.value)


def test_an_unknown_name_lists_what_is_close() -> None:
    assert code_of("lama-3-8b") == (
        "model.unknown-name",
        "There is no model named 'lama-3-8b'. Did you mean llama-3-8b or llama-3-70b or "
        "llama-3.2-1b? Or give the path of a config.json.",
    )


def test_an_unlike_name_lists_all() -> None:
    code, message = code_of("opus")
    assert code == "model.unknown-name"
    assert "Known are llama-tiny, llama-3.2-1b, llama-2-7b," in message


def test_the_zoo_opens_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(TINY)
    for name in (str(tmp_path), "../zoo/llama-tiny", "llama-tiny.json", ""):
        with pytest.raises(ModelError, match="There is no model named"):
            load_zoo(name)


def test_a_missing_file(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.json"
    assert code_of(missing) == (
        "model.file-missing",
        f"There is no file {str(missing)!r}. Give the path of a config.json, or a model's name without a slash.",
    )
    assert code_of(tmp_path)[0] == "model.file-missing"
    assert code_of("/dev/zero")[0] == "model.file-missing"


def test_files_that_are_no_config(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.json", tmp_path / "binary.json"
    large.write_bytes(b" " * (MAX_BYTES + 1))
    binary.write_bytes(b'{"a": "\xff"}')
    assert code_of(large)[0] == "model.too-large"
    assert code_of(binary) == (
        "model.file-unreadable",
        f"{str(binary)!r} is no UTF-8 text (byte 7). Save it as UTF-8.",
    )
    assert code_of("a\0b.json")[0] in {"model.file-unreadable", "model.file-missing"}
    assert code_of("a" * 5000 + ".json")[0] in {"model.file-unreadable", "model.file-missing"}


def test_text_over_the_bound() -> None:
    assert code_of(json.dumps({"a": "x" * MAX_BYTES}))[0] == "model.too-large"


def test_a_source_that_changed_is_refused() -> None:
    source = load_model("llama-tiny").source
    for broken, code in (
        (replace(source, kind="vendor"), "model.source-kind"),
        (replace(source, content=source.content.replace("64", "32")), "model.source-changed"),
        (replace(source, digest="0" * 64), "model.source-changed"),
    ):
        with pytest.raises(ModelError) as caught:
            load_source(broken)
        assert caught.value.code == code
