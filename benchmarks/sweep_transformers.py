"""Every type of causal language model that transformers has, cut to two layers: which open, and what stops the rest.

    python -m benchmarks.sweep_transformers [--types llama,gpt2] [--seconds 120] [--json FILE] [--page]

With `--json`, types that the file has rows of are not run again, so that a sweep can be made in parts. Each type runs
in a process of its own, forked from one that has torch and transformers loaded. `--page` writes
`docs/reference/transformers-models.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "transformers-models.md"
LAYERS = 2
LAYER_KEYS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers", "num_encoder_layers",
    "encoder_layers", "decoder_layers", "num_transformer_layers",
)  # fmt: skip
MEMORY = 8 << 30


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one type."""

    type: str
    stage: str
    """How far it came: `config`, `model`, `trace`, `import` or `done`."""
    parameters: int = 0
    calls: int = 0
    nodes: int = 0
    unknown: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    seconds: float = 0.0
    cause: str = ""


def cut(values: Any, layers: int = LAYERS, old: int = 0) -> Any:
    """Return a config with fewer layers, and lists that have an entry a layer as long as there are layers."""
    if not isinstance(values, dict):
        return values
    count = next((values[key] for key in LAYER_KEYS if isinstance(values.get(key), int)), old)
    out: dict[str, Any] = {}
    for key, value in values.items():
        if key in LAYER_KEYS and isinstance(value, int) and value > layers:
            out[key] = layers
        elif isinstance(value, list) and len(value) == count > layers:
            out[key] = _kinds(value, layers)
        elif key in {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"} and isinstance(value, int):
            out[key] = min(value, 1)
        elif isinstance(value, dict):
            by_layer = bool(value) and all(inner.isdigit() for inner in value)
            kept = {inner: each for inner, each in value.items() if not by_layer or int(inner) < layers}
            out[key] = cut(kept, layers, count) if not by_layer else kept
        else:
            out[key] = value
    return out


def _kinds(entries: list[Any], layers: int) -> list[Any]:
    """Return the entries of the layers that are kept: the first, and one that differs from it if there is one."""
    other = next((entry for entry in entries if entry != entries[0]), entries[0])
    return [*entries[: layers - 1], other]


def default_config(kind: str, layers: int = LAYERS) -> dict[str, Any]:
    """Return the default config of a model type, with fewer layers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    # With words for numbers that JSON has none for.
    whole = json.loads(CONFIG_MAPPING[kind]().to_json_string(use_diff=False))
    plain = {key: value for key, value in whole.items() if value is not None}
    return {**cut(plain, layers), "model_type": kind, "architectures": [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]]}


def one(kind: str, pipe: Connection) -> None:
    """Trace and import one type, and send its row."""
    resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    start = time.perf_counter()
    stage, found = "config", {}
    try:
        from planner.core.graph import ModelSource
        from planner.errors import ModelError
        from planner.importers.tracing.hf import trace_config
        from planner.importers.transformers_config import canonical_config

        for layers in (LAYERS, 2 * LAYERS, 3 * LAYERS):
            stage = "config"
            content = canonical_config(default_config(kind, layers), kind)
            stage = "trace"
            try:
                program = trace_config(content, kind)
                break
            except ModelError as problem:
                # Some types need as many layers as their default has of kinds.
                if problem.code != "model.config-invalid" or layers == 3 * LAYERS:
                    stage = "model" if problem.code == "model.config-invalid" else stage
                    raise
        found = {"calls": len(program.calls), "fixed": program.fixed}
        stage = "import"
        from planner.importers.aten.build import build

        graph = build(program, ModelSource(name=kind, kind="hf_config", digest="", content=content), kind)
        nodes = [node for block in graph.blocks for node in block.nodes]
        unknown = sorted({str(dict(node.attributes).get("target", node.op)) for node in nodes if node.op == "unknown"})
        found |= {"nodes": len(nodes), "unknown": tuple(unknown), "parameters": graph.parameter_count}
        row = Row(type=kind, stage="done", seconds=time.perf_counter() - start, **found)
    except BaseException as problem:
        text = " ".join(f"{type(problem).__name__}: {problem}".split())
        row = Row(type=kind, stage=stage, seconds=time.perf_counter() - start, cause=text[:600], **found)
    pipe.send(row)


def sweep(types: list[str], seconds: float) -> Iterator[Row]:
    """Yield a row a type."""
    import torch.export
    import transformers  # noqa: F401
    from transformers.models.auto import modeling_auto  # noqa: F401

    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    for kind in types:
        mine, its = context.Pipe(duplex=False)
        process = context.Process(target=one, args=(kind, its))
        process.start()
        its.close()
        row = Row(type=kind, stage="trace", seconds=seconds, cause=f"not done after {seconds:g} s")
        if mine.poll(seconds):
            try:
                row = mine.recv()
            except EOFError:
                row = Row(type=kind, stage="trace", cause="its process died")
        process.kill()
        process.join()
        yield row


def page(rows: list[Row]) -> str:
    """Return the page of the results."""
    import torch
    import transformers

    # What is not done in time might be traceable.
    traced = [row for row in rows if row.stage in {"done", "import"} or row.cause.startswith("not done")]
    done = [row for row in rows if row.stage == "done"]
    whole = [row for row in done if not row.unknown]
    lines = [
        "# Model types of transformers",
        "",
        f"Every type in `MODEL_FOR_CAUSAL_LM` of transformers {transformers.__version__}, its default config cut to "
        f"{LAYERS} layers, traced with torch {torch.__version__.split('+')[0]} and imported; made by "
        "`python -m benchmarks.sweep_transformers --page`.",
        "",
        f"Of {len(rows)} types, {len(traced)} can be traced, or are not done in time; of these "
        f"**{len(done)} are imported** ({100 * len(done) / max(1, len(traced)):.1f} %), "
        f"{len(whole)} without any unknown operator.",
        "",
        "| type | calls | nodes | unknown operators | s | what it fixes, or what stops it |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        note = row.cause or " ".join(row.fixed)
        lines.append(
            f"| {row.type} | {row.calls or ''} | {row.nodes or ''} | {', '.join(row.unknown)} | {row.seconds:.1f} | "
            + note.replace("|", "\\|")[:300]
            + " |"
        )
    return "\n".join(lines) + "\n"


def _row(entry: dict[str, Any]) -> Row:
    """Return the row that a file holds."""
    return Row(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def main() -> None:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--types", default="", help="comma-separated; all by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most so long a type")
    parser.add_argument("--json", default="", help="file for the rows")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation")
    options = parser.parse_args()
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    types = options.types.split(",") if options.types else sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    file = Path(options.json) if options.json else None
    rows = [_row(entry) for entry in json.loads(file.read_text("utf-8"))] if file and file.is_file() else []
    known = {row.type for row in rows}
    for row in sweep([kind for kind in types if kind not in known], options.seconds):
        rows.append(row)
        print(
            f"{row.type}: {row.stage} {row.calls} {row.nodes} {row.seconds:.1f}s {','.join(row.unknown)} "
            f"{row.cause[:200]}", flush=True,
        )  # fmt: skip
        if file:
            file.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")
    if options.page:
        PAGE.write_text(page(sorted(rows, key=lambda row: row.type)), "utf-8")


if __name__ == "__main__":
    main()
