"""Covers: tracer, tracing.worker: the process that traces configs, its stages, its end, and what it answers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.core.graph import ModelSource
from planner.errors import ModelError
from planner.importers import load_at_once, load_hf_config, load_source
from planner.importers.tracer import Tracer
from planner.importers.watch import Watch
from planner.verify import verify_graph

OPT = json.dumps(
    {"model_type": "opt", "vocab_size": 96, "hidden_size": 32, "word_embed_proj_dim": 32, "num_hidden_layers": 2,
     "num_attention_heads": 4, "ffn_dim": 48, "max_position_embeddings": 64, "dropout": 0.0}
)  # fmt: skip
STAGES = ["loading torch and transformers", "building the model", "tracing it", "reading the graph"]


def content_of(text: str) -> str:
    source = load_at_once(text, "x")
    assert isinstance(source, ModelSource)
    return source.content


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    made = Tracer()
    yield made
    made.close()


def code_of(tracer: Tracer, content: str, watch: Watch) -> str:
    with pytest.raises(ModelError) as caught:
        tracer.graph(content, "x", watch)
    assert caught.value.diagnostic.hint
    return caught.value.code


def test_a_config_is_traced_once_with_its_stages(tracer: Tracer) -> None:
    told: list[tuple[float, str]] = []
    watch = Watch(stage=lambda done, text: told.append((done, text)))
    graph = tracer.graph(content_of(OPT), "x", watch)
    assert [text for _, text in told] == STAGES
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert verify_graph(graph) == ()
    assert (graph.source.kind, graph.source.content) == ("hf_config", content_of(OPT))
    assert graph.feeds[1].next_of == "tokens"
    # Again, and with another config: torch is there already.
    count = len(told)
    assert tracer.graph(content_of(OPT), "x", watch) is graph
    assert len(told) == count
    tracer.graph(content_of(OPT.replace("96", "80")), "x", watch)
    assert [text for _, text in told[count:]] == STAGES[1:]


def test_what_is_wrong_leaves_the_process_warm(tracer: Tracer) -> None:
    content = content_of(OPT.replace('"num_attention_heads": 4', '"num_attention_heads": 5'))
    assert code_of(tracer, content, Watch()) == "model.config-invalid"
    process = tracer._process
    tracer.graph(content_of(OPT), "again")
    assert tracer._process is process


def test_stopping_kills_the_process_and_the_next_trace_starts_another(tracer: Tracer) -> None:
    tracer.graph(content_of(OPT), "warm")
    assert tracer._process is not None
    pid = tracer._process.pid
    seen: list[str] = []
    watch = Watch(stage=lambda done, text: seen.append(text), stopped=lambda: "tracing it" in seen)
    assert code_of(tracer, content_of(OPT.replace("96", "88")), watch) == "model.import-stopped"
    deadline = time.monotonic() + 120
    while any(_runs_in(process, pid) for process in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs_in(process: Path, group: int) -> bool:
    try:
        return os.getpgid(int(process.name)) == group and "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


def test_what_takes_too_long_is_ended() -> None:
    tracer = Tracer(seconds=0.3)
    assert code_of(tracer, content_of(OPT), Watch()) == "model.trace-slow"
    assert tracer._process is None


def test_a_process_that_dies_is_told_and_replaced() -> None:
    tracer = Tracer()

    def kill(done: float, text: str) -> None:
        assert tracer._process is not None
        os.kill(tracer._process.pid, signal.SIGKILL)

    start = time.monotonic()
    assert code_of(tracer, content_of(OPT), Watch(stage=kill)) == "model.trace-died"
    assert time.monotonic() - start < 30
    assert tracer._process is None


def test_a_traced_config_loads_again_from_its_source(tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.importers.load.tracer", lambda: tracer)
    graph = load_hf_config(OPT, "mine")
    assert graph.source.kind == "hf_config"
    assert load_source(graph.source) == graph
