"""JSON from models is read strictly, text is made storable, and a digest means the value."""

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.jsontext import NotJson, clean_json, clean_text, cut, digest, dump, parse_object, recordable
from tests.requirements import requirement

any_text = st.text(st.characters(exclude_categories=()))  # with NUL and lone surrogates
clean = st.text().map(clean_text)
integers = st.integers() | st.integers(2**53 - 3, 2**53 + 3) | st.integers(10**20, 10**22)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | clean
values = st.recursive(
    scalars | st.integers().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean, inner, max_size=4),
    max_leaves=12,
)
anything = st.recursive(
    scalars
    | any_text
    | st.floats()
    | st.binary()
    | st.builds(lambda: 10**5_000)
    | st.dates()
    | st.sets(st.integers()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(any_text | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)

written = st.recursive(
    scalars | any_text | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
).map(json.dumps)
# Values that are easily taken for each other, so that many pairs are equal or nearly so.
lookalikes = st.recursive(
    st.sampled_from(
        [
            None,
            "null",
            True,
            "true",
            False,
            0,
            "0",
            0.0,
            1,
            "1",
            1.0,
            "",
            2**53,
            str(2**53),
            2**53 + 1,
            -(2**53),
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", "a", "A"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values, written down independently: numbers by value, never mixed with other types."""
    if (
        isinstance(a, bool)
        or isinstance(b, bool)
        or a is None
        or b is None
        or isinstance(a, str)
        or isinstance(b, str)
    ):
        return type(a) is type(b) and a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return not isinstance(a, list | dict) and not isinstance(b, list | dict) and a == b


@requirement("M-25")
@given(lookalikes, lookalikes)
def test_two_values_have_the_same_digest_exactly_when_they_are_the_same(a: Any, b: Any) -> None:
    assert (digest(a) == digest(b)) == same(a, b)


@requirement("M-25")
@given(st.dictionaries(clean, values, max_size=6), st.randoms(use_true_random=False), st.integers(0, 4))
def test_the_order_of_keys_and_white_space_do_not_matter(
    value: dict[str, Any], random: Any, indent: int
) -> None:
    keys = list(value)
    random.shuffle(keys)
    written = json.dumps({key: value[key] for key in keys}, indent=indent, ensure_ascii=bool(indent % 2))
    assert digest(parse_object(written)) == digest(value)


@requirement("M-25")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1", 1), (True, 1), (False, 0), (None, "null"), ([], {}), ("", None), ([1, 2], [2, 1]), ({"a": 1}, {"A": 1}),
        (2**53, 2**53 + 1), (2**53, str(2**53)), (-(2**53), str(-(2**53))), (10**30, str(10**30)),
        (0.1, 0.2), ("a", "a "), ("é", "e\u0301"), ([[]], []),
    ],
)  # fmt: skip
def test_different_values_have_different_digests(a: Any, b: Any) -> None:
    assert digest({"x": a}) != digest({"x": b})


def test_equal_numbers_have_equal_digests() -> None:
    assert digest({"x": 1.0}) == digest({"x": 1})
    assert digest({"x": -0.0}) == digest({"x": 0})
    assert digest({"x": (1, 2)}) == digest({"x": [1, 2]})


def test_a_digest_is_the_canonical_one() -> None:
    """RFC 8785, so that others can compute it."""
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"b": 1.5, "a": "é"}) == hashlib.sha256('{"a":"é","b":1.5}'.encode()).hexdigest()


@requirement("P31")
@given(anything)
def test_nothing_but_not_json_is_ever_raised_by_clean_json_and_digest(value: Any) -> None:
    for use in (clean_json, digest):
        try:
            use(value)
        except NotJson:
            continue


@requirement("P06")
@given(any_text | st.text('{}[]",:1ae\\ ', max_size=12) | written)
def test_parse_object_gives_an_object_or_not_json(text: str) -> None:
    try:
        parsed = parse_object(text)
    except NotJson:
        return
    assert type(parsed) is dict
    dump(parsed).encode()


@requirement("P19", "P31")
@given(anything)
def test_what_is_recordable_is_strict_clean_json_whatever_it_was(value: Any) -> None:
    written = dump(recordable(value))
    assert "\x00" not in written
    written.encode()
    json.loads(written, parse_constant=pytest.fail)


@given(values)
def test_what_is_json_already_is_recorded_as_it_is(value: Any) -> None:
    assert recordable(value) == clean_json(value) == value


@requirement("P31")
def test_a_value_that_holds_itself_is_recorded_up_to_a_depth() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested too deep" in dump(recordable(loop))


@given(any_text)
def test_clean_text_has_no_nul_and_no_lone_surrogate_and_keeps_the_rest(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert "\x00" not in cleaned
    assert clean_text(cleaned) == cleaned
    if "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text):
        assert cleaned == text


def test_two_halves_of_a_character_are_joined() -> None:
    assert clean_text("a\ud83d\ude00\ud83d") == "a😀\ufffd"
    assert clean_text("\ufeffa") == "\ufeffa"


@requirement("P06", "P04")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "character 0"), ('{"glob": }', "character 9"), ('{"path":"a","content":"xx', "Unterminated"),
        ("[]", "expected an object, got list"), ("null", "got NoneType"), ('"{}"', "got str"), ("{}{}", "Extra data"),
        ("{'a': 1}", "character 1"), ('{"a": NaN}', "NaN is not a JSON number"), ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "inf is not"), ('{"a":1,"a":2}', "a key is given twice"), ('{"a":{"b":1,"b":1}}', "twice"),
        ('{"a":' + "[" * 70 + "]" * 70 + "}", "deeper than 64"), ('{"a":' * 100_000, "deeper than 64"),
        ('{"a":' + "9" * 5_000 + "}", "4300"), ('{"a\\ud800":1,"a\\ufffd":2}', "two keys"),
    ],
)  # fmt: skip
def test_what_is_not_one_strict_object_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(NotJson, match=said):
        parse_object(text)


@requirement("P19")
def test_escaped_nul_and_surrogates_are_cleaned_in_keys_and_values() -> None:
    assert parse_object('{"a\\u0000": ["\\ud800", "\\ud83d\\ude00"]}') == {"a\ufffd": ["\ufffd", "😀"]}


def test_integers_beyond_a_double_keep_their_digits() -> None:
    assert parse_object('{"a": 12345678901234567890123}') == {"a": 12345678901234567890123}


def test_a_large_object_is_read() -> None:
    text = "ü" * 5_000_000
    assert parse_object(json.dumps({"a": text}))["a"] == text


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, b"x", {1}, {1: 2}, object(), pytest.param(10**5_000, id="huge")]
)
def test_clean_json_refuses_what_json_has_no_word_for(value: Any) -> None:
    with pytest.raises(NotJson):
        clean_json({"deep": [value]})


@requirement("P27")
@given(st.text(max_size=400).map(clean_text), st.integers(0, 300))
def test_a_cut_is_never_longer_than_its_budget(text: str, budget: int) -> None:
    short = cut(text, budget)
    assert len(short.encode()) <= budget or short == text
    assert (short == text) or len(text.encode()) > budget


@requirement("P27")
def test_a_cut_keeps_head_and_tail_and_counts_what_there_was() -> None:
    short = cut("head" + "x" * 10_000 + "tail", 200)
    assert short.startswith("head")
    assert short.endswith("tail")
    assert "10008 bytes in all" in short
