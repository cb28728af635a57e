"""Strict, bounded JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.json_text import JsonBounds, canonical, digest, parse
from planner.errors import DocumentError

BOUNDS = JsonBounds(error=DocumentError, prefix="document", max_bytes=2000, max_depth=5)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(JSON)
def test_the_canonical_text_reads_back_and_is_stable(value: object) -> None:
    bounds = JsonBounds(error=DocumentError, prefix="x", max_bytes=1 << 20, max_depth=50)
    text = canonical(value)
    assert parse(text, "it", bounds) == value
    assert canonical(parse(json.dumps(value, indent=3), "it", bounds)) == text


def test_order_of_keys_and_spaces_do_not_change_the_digest() -> None:
    assert canonical({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "json-syntax", "it is not JSON: Expecting value at line 1, column 1."),
        (
            '{"a": 1,\n "b" 2}',
            "json-syntax",
            "it is not JSON: Expecting ':' delimiter at line 2, column 6.",
        ),
        ("[NaN]", "json-number", "it holds NaN, which is no finite number."),
        ("[-Infinity]", "json-number", "it holds -Infinity, which is no finite number."),
        ("[1e999]", "json-number", "it holds 1e999, which is no finite number."),
        ("1" * 1500, "json-number", "it holds an integer of 1500 digits."),
        ('{"a": {"b": 1, "b": 2}}', "json-key", "it gives the key 'b' twice in one object."),
        (r'["\ud800"]', "json-character", r"it holds half of a surrogate pair in '\ud800'."),
        ("[[[[[[]]]]]]", "json-depth", "it nests more than 5 levels deep."),
        ("[" * 1900, "json-depth", "it nests more than 5 levels deep."),
        (" " * 2001, "too-large", "it has 2,001 bytes; at most 2,000 are read."),
        ("é" * 1001, "too-large", "it has 2,002 bytes; at most 2,000 are read."),
        ("\ufeff[]", "json-syntax", None),
    ],
)
def test_refusals(text: str, code: str, message: str | None) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text, "it", BOUNDS)
    assert caught.value.code == f"document.{code}"
    assert message is None or caught.value.diagnostic.message == message


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_an_error_not_a_crash(text: str) -> None:
    bounds = JsonBounds(error=DocumentError, prefix="document", max_bytes=1 << 20, max_depth=5)
    with pytest.raises(DocumentError) as caught:
        parse(text, "it", bounds)
    assert caught.value.code == "document.json-depth"


def test_depth_at_the_bound_is_read() -> None:
    assert parse("[[[[[1]]]]]", "it", BOUNDS) == [[[[[1]]]]]
