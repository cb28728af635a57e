"""What goes wrong while a model is built or traced → one sentence with a stable code and a remedy.

`CAUSES` is tried from the top; what no row knows is told by the exception's own first line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A row: exceptions whose class or text matches `pattern` mean `code`.

    Parameters
    ----------
    pattern
        Regular expression, searched in `Class: text`; its groups fill `{0}`, `{1}` … of the message.
    """

    code: str
    pattern: str
    message: str
    hint: str


CAUSES = (
    Cause(
        code="model.trace-data-dependent",
        pattern=r"GuardOnDataDependentSymNode|DataDependentOutput|data.dependent|_local_scalar_dense|"
        r"unbacked symbol|TorchRuntimeError.*\.item\(\)|Tensor\.item\(\) cannot be called on meta",
        message="what it computes depends on values of its inputs: a branch or a size is decided by a tensor's values.",
        hint="Take the branch out, or write it with torch.where or torch.cond; sizes must follow from shapes.",
    ),
    Cause(
        code="model.trace-no-meta",
        pattern=r"(?:no|not) .*(?:meta|Meta|fake).*?(?:kernel|impl)[^'\"]*?(?:for|operator)?\s*['\"]?([\w:.]*)|"
        r"UnsupportedOperatorException:? ?([\w:.]*)|Could not run '([\w:.]+)' with arguments from the 'Meta' backend",
        message="an operator of its own has no rule for the shapes of its results: {0}.",
        hint="Register one with torch.library.register_fake, then trace again.",
    ),
    Cause(
        code="model.trace-device",
        pattern=r"Expected all tensors to be on the same device|tensors? .*on meta.*cpu|"
        r"[Cc]annot copy out of meta tensor|only (?:supports|runs on) .*(?:CUDA|cuda)",
        message="its code puts tensors on devices by itself.",
        hint="Let new tensors follow the device of the inputs.",
    ),
    Cause(
        code="model.trace-control-flow",
        pattern=r"TracingError|torch\._dynamo\.exc\.Unsupported|graph break",
        message="its code does something that can't be written down as a graph.",
        hint="See the message of torch; leave out what is not tensors, or trace a part of the model.",
    ),
    Cause(
        code="model.package-missing",
        pattern=r"(?:ImportError|ModuleNotFoundError).*?(?:No module named |requires the |library )['\"]?([\w.-]+)",
        message="its code needs the package {0}, which is not installed.",
        hint="Install it, or trace the module where it is installed.",
    ),
)


def told(problem: BaseException, limit: int = 240) -> str:
    """Return what an exception says, as a part of one sentence."""
    text = " ".join(str(problem).split())
    text = re.sub(r"(?:The above exception|Traceback|from user code|For more information|To fix|Suggested).*", "", text)
    sentence = text.split(". ")[0].rstrip(".: ")
    return f"{type(problem).__name__}: {sentence[:limit]}" if sentence else type(problem).__name__


def tracing_failed(problem: Exception, name: str) -> ModelError:
    """Return the error for an exception that tracing raised."""
    return _found(problem, name, "can't be traced") or ModelError(
        "model.trace-failed", f"{name} can't be traced: torch says {told(problem)}.",
        "Check that the model runs on inputs of these shapes.", subject=name,
    )  # fmt: skip


def building_failed(problem: Exception, name: str) -> ModelError:
    """Return the error for an exception that building a config's model raised."""
    if isinstance(problem, ImportError) and (found := _found(problem, name, "can't be built")):
        return found
    return ModelError(
        "model.config-invalid", f"transformers makes no model of {name}: {told(problem)}.", "Mend these values.",
        subject=name,
    )  # fmt: skip


def _found(problem: Exception, name: str, what: str) -> ModelError | None:
    chain: list[BaseException] = [problem]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and len(chain) < 8:
        chain.append(inner)
    for cause in CAUSES:
        for each in chain:
            match = re.search(cause.pattern, f"{type(each).__name__}: {each}"[:4000])
            if match:
                detail = next((group for group in match.groups() if group), told(each))
                message = f"{name} {what}: {cause.message.format(detail)}"
                return ModelError(cause.code, message, cause.hint, subject=name)
    return None
