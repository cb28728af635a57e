"""Numbers that the files of torch use for element types, layouts and memory formats, and what we call them.

From the published schema of `torch.export` archives, version 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SCALAR_TYPES: Mapping[int, str] = MappingProxyType({
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
})  # fmt: skip
LAYOUTS: Mapping[int, str] = MappingProxyType({
    1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 6: "_mkldnn", 7: "strided",
})  # fmt: skip
MEMORY_FORMATS: Mapping[int, str] = MappingProxyType({
    1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format",
})  # fmt: skip
