"""Reads ONNX files with our own reader of their wire format: weights are passed over, data outside never looked for.

A file is translated to ATen calls, so that fusion and layers are found as in traces. ONNX knows the forward only, and
often a rewritten one: it is good for planning, and its code is not exported.
"""

from __future__ import annotations

from .read import read_program

__all__ = ["read_program"]
