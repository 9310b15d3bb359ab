"""The small JSON writer gives exactly what `json.dumps` gives, and the reader takes only JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spoolctl import emit, jsontext

ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates too
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner) | st.tuples(inner, inner),
    max_leaves=30,
)
UTF8_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(VALUES)
@example({"": [], "a": {}, "b": [[]], "c": [{}]})
@example(-0.0)
@example(1e16)
@example(5e-324)
@example(2**64)
@example("\x00\x1f\x7f\u2028\U0001f600\ud800")
def test_dumps_is_json_dumps(value):
    assert jsontext.dumps(value) == json.dumps(value)


@given(VALUES)
def test_compact_is_json_dumps_without_blanks(value):
    assert jsontext.compact(value) == json.dumps(value, separators=(",", ":"))


@given(UTF8_VALUES)
def test_canonical_is_json_dumps_with_sorted_keys(value):
    assert jsontext.canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@given(UTF8_VALUES)
def test_shown_is_json_dumps_where_everything_is_utf8(value):
    assert jsontext.shown(value) == json.dumps(value)


@given(VALUES)
def test_what_is_stored_is_read_back_exactly(value):
    def lists(item):
        if isinstance(item, (list, tuple)):
            return [lists(one) for one in item]
        return {key: lists(one) for key, one in item.items()} if isinstance(item, dict) else item

    text = jsontext.compact(value)
    assert text.isascii()
    assert jsontext.loads(text) == lists(value)


@given(VALUES)
def test_what_is_answered_has_no_lone_surrogate(value):
    jsontext.loads(jsontext.shown(value).encode("ascii").decode())
    back = json.loads(jsontext.shown(value))
    json.dumps(back, ensure_ascii=False).encode("utf-8")


@given(VALUES)
def test_the_hash_of_an_answer_can_be_made_again_from_what_was_printed(value):
    import hashlib

    try:
        printed = json.loads(jsontext.shown(value))
    except ValueError:  # two keys became one
        return
    if len(json.dumps(printed)) != len(jsontext.shown(value)):
        return
    canonical = json.dumps(printed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert emit.data_hash(value) == "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


def test_the_keys_of_the_hash_are_sorted_as_they_are_printed():
    import hashlib

    value = {"\ue000": 1, "\udcff": 2}
    printed = json.loads(jsontext.shown(value))
    canonical = json.dumps(printed, sort_keys=True, separators=(",", ":"))
    assert emit.data_hash(value) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


@given(st.binary())
def test_bytes_that_are_not_utf8_become_replacement_characters(raw):
    text = raw.decode("utf-8", "surrogateescape")
    assert jsontext.plain(text) == raw.decode("utf-8", "replace")
    assert json.loads(jsontext.shown(text)) == raw.decode("utf-8", "replace")
    assert json.loads(jsontext.dumps(text)) == text


@pytest.mark.parametrize("lone", ["\ud800", "\udbff", "a\ude00b", "\udc41"])
def test_a_surrogate_that_stands_for_no_byte_becomes_a_replacement_character(lone):
    assert "\ufffd" in jsontext.plain(lone)
    jsontext.plain(lone).encode("utf-8")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"a": x}])
def test_nan_and_infinity_are_refused(value, wrap):
    for write in (jsontext.dumps, jsontext.compact, jsontext.shown, jsontext.canonical):
        with pytest.raises(ValueError, match="JSON has no"):
            write(wrap(value))


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), 1j, {"a": b""}, [{"b": {1}}]])
def test_what_json_does_not_have_is_refused(value):
    with pytest.raises(TypeError):
        jsontext.dumps(value)


@pytest.mark.parametrize("key", [1, None, True, 1.5, b"k"])
def test_keys_must_be_text(key):
    with pytest.raises(TypeError):
        jsontext.dumps({key: 1})


def test_integers_and_floats_of_a_subclass_are_written_as_numbers():
    import enum

    class Colour(enum.IntEnum):
        RED = 3

    class Precise(float):
        def __repr__(self):
            return "nonsense"

    assert jsontext.dumps([Colour.RED, Precise(1.5)]) == json.dumps([Colour.RED, Precise(1.5)])


def nested(depth, opening, closing):
    return opening * depth + closing * depth


@pytest.mark.parametrize("depth", [100, jsontext.DEEPEST])
def test_nesting_is_kept(depth):
    text = nested(depth, "[", "]")
    assert jsontext.compact(jsontext.loads(text)) == text
    assert jsontext.shown({"data": {"jobs": [{"payload": jsontext.loads(text)}]}})


DEEP = [jsontext.DEEPEST + 2, 999, 1500, 5000, 200_000]


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize(
    "make", [lambda n: nested(n, "[", "]"), lambda n: nested(n, '{"a":[', "]}"), lambda n: "[" * n]
)
def test_reading_what_is_nested_too_deeply_is_a_value_error(depth, make):
    with pytest.raises(ValueError, match=r".+"):
        jsontext.loads(make(depth))


@pytest.mark.parametrize("depth", DEEP)
def test_storing_what_is_nested_too_deeply_is_a_value_error(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        jsontext.compact(value)
    while value:  # taken apart by hand: a deep value is freed by recursion too
        value = value.pop()


def test_many_brackets_in_a_flat_value_are_no_nesting():
    value = [[[]] * 1000, "[" * 1000, {"a": {}}]
    assert jsontext.loads(jsontext.compact(value)) == value


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a": NaN}', "[Infinity]"])
def test_reading_nan_is_a_value_error(text):
    with pytest.raises(ValueError, match="is not JSON"):
        jsontext.loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "nul", "'a'", "[1,]", '{"a" 1}', "1 2", "\ufeff{}", "01", '"\n"']
)
def test_reading_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        jsontext.loads(text)


def test_an_integer_of_many_digits_is_a_value_error_or_the_number():
    try:
        assert jsontext.loads("9" * 10_000) > 0  # type: ignore[operator]
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["1e999", "[-1e999]", '{"a": 1e400}'])
def test_a_number_too_large_for_a_float_does_not_come_back_as_infinity(text):
    with pytest.raises(ValueError, match=r".+"):
        jsontext.loads(text)


def test_an_encoder_without_the_c_module_gives_the_same(monkeypatch):
    """The fallback of an interpreter without `_json`."""
    import importlib.util
    import sys

    monkeypatch.setitem(sys.modules, "_json", None)
    spec = importlib.util.find_spec("spoolctl.jsontext")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value = {"a": "é\ud800\n", "b": ["\U0001f600"]}
    assert module.dumps(value) == jsontext.dumps(value) == json.dumps(value)
