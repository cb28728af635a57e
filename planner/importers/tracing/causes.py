"""What goes wrong while a model is built or traced → one sentence with a stable code and a remedy.

`CAUSES` is tried from the top; what no row knows is told by the exception's own first sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ModelError

LONGEST = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A row: exceptions of which `Class: text` matches `pattern` mean `code`.

    Parameters
    ----------
    pattern
        Regular expression; its first group that matched fills `{0}` of the message.
    """

    code: str
    pattern: str
    message: str
    hint: str


CAUSES = (
    Cause(
        code="model.trace-no-meta",
        pattern=r"no fake impl registered for \S*?(\w+::[\w.]+)|UnsupportedOperatorException: ([\w:.]+)|"
        r"Could not run '([\w:.]+)' with arguments from the 'Meta' backend|"
        r"([\w:.]+): attempted to run this operator with",
        message="its operator {0} does not say which shapes its results have",
        hint="Register that with torch.library.register_fake, then trace again.",
    ),
    Cause(
        code="model.trace-data-dependent",
        pattern=r"GuardOnDataDependentSymNode|DataDependentOutput|data-dependent|_local_scalar_dense|"
        r"unbacked symbol|\.item\(\) cannot be called on meta",
        message="a branch or a size depends on values of its tensors",
        hint="Write it with torch.where or torch.cond, or let it follow from shapes.",
    ),
    Cause(
        code="model.trace-device",
        pattern=r"Expected all tensors to be on the same device|found two different devices|"
        r"[Cc]annot copy out of meta tensor|Unhandled FakeTensor Device Propagation",
        message="its code puts tensors on other devices than those of its inputs",
        hint="Let new tensors follow the device of the inputs.",
    ),
    Cause(
        code="model.trace-control-flow",
        pattern=r"TracingError|torch\._dynamo\.exc\.Unsupported|[Gg]raph break",
        message="its code does something that can't be written down as a graph",
        hint="Leave out what is not tensors, or trace a part of the model.",
    ),
    Cause(
        code="model.package-missing",
        pattern=r"(?:ImportError|ModuleNotFoundError).*?(?:No module named |requires the |library )['\"]?([\w.-]+)",
        message="its code needs the package {0}, which is not installed",
        hint="Install it, or trace the module where it is installed.",
    ),
)


def told(problem: BaseException) -> str:
    """Return what an exception says, as a part of one sentence."""
    text = re.split(r"\n\s*\n|The above exception|Traceback|For more information|Suggested fixes|from user code",
                    str(problem).strip())[0]  # fmt: skip
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".: ")
    shown = sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 1] + "…"
    if isinstance(problem, ModelError):
        return shown
    return f"{type(problem).__name__}: {shown}" if shown else type(problem).__name__


def tracing_failed(problem: Exception, name: str) -> ModelError:
    """Return the error for an exception that tracing raised."""
    return _found(problem, name, "can't be traced") or ModelError(
        "model.trace-failed", f"{name} can't be traced: {told(problem)}.",
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


def module_failed(problem: Exception, name: str, real: bool) -> ModelError:
    """Return the error for an exception that a user's own function raised while it made a module."""
    hint = "Mend it there." if real else "If it needs the values of its parameters, make it with --real."
    return ModelError("model.module-failed", f"{name} raised {told(problem)}.", hint, subject=name)


def _found(problem: Exception, name: str, what: str) -> ModelError | None:
    chain: list[BaseException] = [problem]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and len(chain) < 8:
        chain.append(inner)
    for cause in CAUSES:
        for each in chain:
            match = re.search(cause.pattern, f"{type(each).__name__}: {each}"[:8000])
            if match:
                detail = next((group for group in match.groups() if group), "")
                place = _place(str(each))
                message = f"{name} {what}: {cause.message.format(detail)}{place}."
                return ModelError(cause.code, message, cause.hint, subject=name)
    return None


def _place(text: str) -> str:
    """Return the line of the user's code that torch names, as the end of a sentence."""
    found = re.search(r'raised this error:\s+File "([^"]+)", line (\d+), in \S+\s+(.*)', text)
    if found is None:
        return ""
    return f", at {found[1].rpartition('/')[2]}:{found[2]} ({found[3].strip()[:80]})"
