"""SPEC 2.4: every type's grammar and limits, against its own probes, Python values and datetime."""

from __future__ import annotations

import datetime
import math
import zoneinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spoolctl.contract import env, limits, types
from spoolctl.contract.types import BadValue
from spoolctl.errors import nearest

TYPES = {
    "text": types.Type(),
    "integer": types.Integer(-5, 10),
    "integer or none": types.Integer(0, limits.RETRIES_MAX, none=True),
    "job_id": types.JOB_ID,
    "priority": types.PRIORITY,
    "int64": types.Integer(limits.INT64_MIN, limits.INT64_MAX),
    "bytes": types.Bytes(),
    "bytes, no none": types.Bytes(none=False),
    "float": types.Float(0, 1),
    "factor": types.Float(1, limits.BACKOFF_FACTOR_MAX),
    "duration": types.Duration(),
    "positive duration": types.Duration(limits.INT64_MAX, positive=True, none=True),
    "poll": types.POLL,
    "wait": types.WAIT,
    "timestamp": types.TIMESTAMP,
    "lane": types.LANE,
    "key": types.KEY,
    "tag": types.Tag(),
    "tag selector": types.Tag(selector=True),
    "env": types.EnvVar(env.RESERVED),
    "note": types.Text(limits.NOTE_MAX),
    "path": types.PATH,
    "command": types.Command(),
    "worker_id": types.WorkerId(),
    "choice": types.Choice("both", "stdout", "stderr"),
    "states": types.STATES,
    "job": types.JobRef(),
    "jobs": types.JobRef(ranges=True),
}

PROBES = [
    pytest.param(kind, group, word, id=f"{name}-{group}-{i}")
    for name, kind in TYPES.items()
    for group, words in kind.probes().items()
    for i, word in enumerate(words)
]


@pytest.mark.parametrize(("kind", "group", "word"), PROBES)
def test_a_type_accepts_and_refuses_its_own_probes(kind, group, word):
    if group == "valid":
        kind.parse(word)
        return
    with pytest.raises(BadValue) as caught:
        kind.parse(word)
    assert caught.value.message
    if group in ("low", "high"):
        assert {"minimum", "maximum"} & set(caught.value.facts)
        bound = caught.value.facts["minimum" if group == "low" else "maximum"]
        assert bound is not None


@pytest.mark.parametrize(("kind", "group", "word"), PROBES)
def test_check_treats_text_as_parse_does(kind, group, word):
    if group == "valid":
        assert kind.check(word) == kind.parse(word)
    else:
        with pytest.raises(BadValue):
            kind.check(word)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("value", [True, False, [], {}, b"1", object(), [1], {"a": 1}, 1j])
def test_check_refuses_values_that_are_neither_text_nor_number(name, value):
    with pytest.raises(BadValue):
        TYPES[name].check(value)


@pytest.mark.parametrize("name", TYPES)
def test_check_takes_none_only_where_the_word_none_stands_for_no_limit(name):
    kind = TYPES[name]
    if kind.none:
        assert kind.check(None) is None
        assert kind.parse("none") is None
    else:
        with pytest.raises(BadValue):
            kind.check(None)


@pytest.mark.parametrize("name", ["float", "factor", "duration", "poll", "timestamp", "positive duration"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_check_refuses_what_is_not_finite(name, value):
    with pytest.raises(BadValue):
        TYPES[name].check(value)


@pytest.mark.parametrize("name", ["integer", "job_id", "priority", "bytes"])
@pytest.mark.parametrize("value", [1.0, 1.5, math.nan, math.inf])
def test_an_integer_is_no_float(name, value):
    with pytest.raises(BadValue):
        TYPES[name].check(value)


def test_every_probe_group_of_a_bounded_type_has_words():
    for name, kind in TYPES.items():
        assert set(kind.probes()) == {"valid", "invalid", "low", "high"}, name
        if isinstance(kind, (types.Integer, types.Float, types.Duration, types.Timestamp)):
            assert all(kind.probes().values()), name


# --- numbers ----------------------------------------------------------------------------------------------


@given(st.integers(-(10**40), 10**40))
def test_integers_are_accepted_exactly_within_their_limits(number):
    kind = types.Integer(-1000, limits.INT64_MAX)
    if -1000 <= number <= limits.INT64_MAX:
        assert kind.parse(str(number)) == kind.check(number) == number
    else:
        for call, value in ((kind.parse, str(number)), (kind.check, number)):
            with pytest.raises(BadValue) as caught:
                call(value)
            assert caught.value.facts == {"minimum": -1000, "maximum": limits.INT64_MAX}


@given(st.text(st.sampled_from("0123456789-+_. xe\u0661\uff11\n"), max_size=8))
def test_an_integer_is_ascii_digits_with_an_optional_minus(word):
    kind = types.Integer(limits.INT64_MIN, limits.INT64_MAX)
    body = word.removeprefix("-")
    if body and all(c in "0123456789" for c in body):
        assert kind.parse(word) == int(word)
    else:
        with pytest.raises(BadValue):
            kind.parse(word)


@pytest.mark.parametrize("digits", [31, 400, 5000, 100_000])
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("name", ["integer", "job_id", "bytes", "float", "duration", "timestamp", "job"])
def test_a_number_of_any_length_is_refused_as_out_of_range(name, sign, digits):
    with pytest.raises(BadValue) as caught:
        TYPES[name].parse(sign + "9" * digits)
    assert {"minimum", "maximum"} <= set(caught.value.facts)


@pytest.mark.parametrize("name", ["integer", "float", "duration", "timestamp", "job"])
def test_leading_zeros_do_not_make_a_number_long(name):
    assert TYPES[name].parse("0" * 5000 + "1") in (1, ("id", 1))


@pytest.mark.parametrize(
    ("word", "value"),
    [("1", 1), ("1k", 1024), ("2M", 2 * 1024**2), ("3G", 3 * 1024**3), ("007k", 7 * 1024),
     (str(2**53 - 1) + "k", (2**53 - 1) * 1024), ("none", None)],
)  # fmt: skip
def test_bytes_have_binary_suffixes(word, value):
    assert types.Bytes().parse(word) == value


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE)
@example(0.1)
@example(5e-324)
@example(1.7976931348623157e308)
def test_floats_are_read_as_python_reads_them(value):
    kind = types.Float(-1e299, 1e299)
    word = repr(value)
    if "e+" in word:
        word = word.replace("e+", "e")
    if -1e299 <= value <= 1e299:
        assert kind.parse(word) == value
        assert kind.check(value) == value
    else:
        with pytest.raises(BadValue):
            kind.parse(word)


@pytest.mark.parametrize("word", ["1", "1.0", "01", "1e0", "10e-1", "0.1e1", "0.1E+1"])
def test_an_integral_float_is_an_int(word):
    value = types.Float(0, 10).parse(word)
    assert value == 1
    assert type(value) is int


@given(
    st.decimals(0, 10**7, allow_nan=False, places=3),
    st.sampled_from(["", "s", "m", "h", "d"]),
)
def test_a_duration_is_a_decimal_and_a_unit(number, unit):
    scale = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    word = f"{number:f}{unit}"
    value = types.Duration(10**12).parse(word)
    assert value == pytest.approx(float(number) * scale)
    assert isinstance(value, int) or not value.is_integer()


@given(st.text(st.sampled_from("0123456789.smhdSMHDwy+-e _\u0661"), max_size=7))
def test_only_the_grammar_is_a_duration(word):
    body = word[:-1] if word[-1:] in ("s", "m", "h", "d") else word
    before, point, after = body.removeprefix("-").partition(".")
    digits = before + after
    written = bool(digits) and all(c in "0123456789" for c in digits) and not (point and not after)
    kind = types.Duration(10**12)
    if written and float(body) >= 0:
        assert kind.parse(word) >= 0
        return
    with pytest.raises(BadValue) as caught:
        kind.parse(word)
    assert bool(caught.value.facts) is written


@given(st.one_of(FINITE, st.integers(-(10**20), 10**20)))
def test_a_duration_of_python_is_bounded_like_its_text(value):
    kind = types.Duration(limits.SECONDS_MAX, positive=True)
    if 0 < value <= limits.SECONDS_MAX:
        assert kind.check(value) == value
    else:
        with pytest.raises(BadValue) as caught:
            kind.check(value)
        assert caught.value.facts == {"minimum": 0, "maximum": limits.SECONDS_MAX}


def test_a_job_timeout_reaches_sixty_three_bits():
    kind = types.Duration(limits.INT64_MAX, positive=True, none=True)
    assert kind.parse(str(limits.INT64_MAX)) == limits.INT64_MAX
    assert kind.parse("none") is None
    with pytest.raises(BadValue):
        kind.parse(str(limits.INT64_MAX + 1))


# --- timestamps -------------------------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(2900, 12, 31))
UTC = datetime.timezone.utc


@given(MOMENTS, st.integers(-1439, 1439), st.sampled_from("T "))
def test_a_timestamp_with_an_offset_is_what_datetime_says(moment, offset, separator):
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    word = moment.isoformat(separator, "milliseconds") + zone
    aware = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=offset)))
    expected = (aware - datetime.datetime(1970, 1, 1, tzinfo=UTC)) / datetime.timedelta(seconds=1)
    assert types.TIMESTAMP.parse(word) == pytest.approx(expected, abs=1e-4)


@given(MOMENTS)
def test_z_is_utc(moment):
    moment = moment.replace(microsecond=0)
    expected = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
    assert types.TIMESTAMP.parse(moment.isoformat() + "Z") == expected
    assert types.TIMESTAMP.parse(moment.isoformat() + "+00") == expected


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/St_Johns",
]


@pytest.mark.parametrize("name", ZONES)
@given(moment=st.datetimes(datetime.datetime(1975, 1, 1), datetime.datetime(2037, 1, 1)))
def test_without_an_offset_the_zone_of_the_process_counts(name, moment):
    import os
    import time

    rules = zoneinfo.ZoneInfo(name)
    before = os.environ["TZ"]
    os.environ["TZ"] = name
    time.tzset()
    try:
        moment = moment.replace(microsecond=0)
        # fold=0: the first of a fold; a gap is read with the offset before it, which moves it forward.
        assert types.TIMESTAMP.parse(moment.isoformat()) == moment.replace(tzinfo=rules, fold=0).timestamp()
        assert types.TIMESTAMP.parse(moment.strftime("%Y-%m-%d")) == (
            moment.replace(hour=0, minute=0, second=0, tzinfo=rules, fold=0).timestamp()
        )
    finally:
        os.environ["TZ"] = before
        time.tzset()


def local(value):
    return datetime.datetime.fromtimestamp(value).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("name", "word", "moves_to"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T03:30:00"),
        ("America/New_York", "2026-03-08 02:15:10", "2026-03-08T03:15:10"),
        ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-04T02:40:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T02:00", "2026-03-29T03:00:00"),
    ],
)
def test_a_gap_of_daylight_saving_moves_forward(zone, name, word, moves_to):
    zone(name)
    assert local(types.TIMESTAMP.parse(word)) == moves_to


@pytest.mark.parametrize(
    ("name", "word", "utc"),
    [
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30Z"),
        ("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30Z"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T02:00", "2026-10-25T00:00Z"),
    ],
)
def test_a_fold_takes_the_first(zone, name, word, utc):
    zone(name)
    assert types.TIMESTAMP.parse(word) == types.TIMESTAMP.parse(utc)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", 0), ("-1.5", -1.5), ("1700000000.25", 1700000000.25), ("2030", 2030), ("20300102", 20300102),
        ("2030-01-02", 1893542400), ("2030-01-02Z", 1893542400), ("2030-01-02T00:00", 1893542400),
        ("2030-01-02 00:00:00.5", 1893542400.5), ("2030-01-02T02:30+02:30", 1893542400),
        ("2030-01-01T22:00-02", 1893542400), ("2030-01-02T00:00:00.123456789Z", 1893542400.123456),
        ("1969-12-31T23:59:59Z", -1), ("2028-02-29", 1835395200),
    ],
)  # fmt: skip
def test_timestamps_of_every_form(word, value):
    assert types.TIMESTAMP.parse(word) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    "word",
    [
        "2030-01-02T24:00", "2030-01-02T00:60", "2030-01-02T00:00:61", "2030-02-29", "2030-00-01",
        "2030-01-00", "0000-01-01", "2030-01-02T00:00+24:00", "2030-01-02T00:00+01:60", "2030-01-02T00:00+1",
        "2030-01-02t00:00", "2030-01-02  00:00", "2030-01-02T00:00 Z", "2030-01-02T00:00ZZ", "2030-W01-1",
        "2030-01-02T0000", "2030/01/02", "+5", "1e5", "0x10", "1_000", "٢٠٣٠-01-02", "2030-01-02T00:00:00,5",
        "2030-01-02T00:00:00.", "2030-01-02T", "2030-01-02T12", "-2030-01-02", "2030-001", "now",
    ],
)  # fmt: skip
def test_what_is_no_timestamp(word):
    with pytest.raises(BadValue) as caught:
        types.TIMESTAMP.parse(word)
    assert not caught.value.facts


@given(st.text(st.sampled_from("0123456789-T: Z+."), min_size=1, max_size=27))
def test_any_text_is_a_timestamp_or_refused(word):
    try:
        value = types.TIMESTAMP.parse(word)
    except BadValue:
        return
    assert abs(value) <= limits.TIMESTAMP_MAX


@pytest.mark.parametrize(
    "word", ["9999-12-31T23:59:59Z", "0001-01-01", "0001-01-01T00:00+23:59", "9999-12-31"]
)
def test_the_ends_of_the_calendar_are_refused_and_nothing_breaks(zone, word):
    for name in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
        zone(name)
        with pytest.raises(BadValue):
            types.TIMESTAMP.parse(word)


# --- text -------------------------------------------------------------------------------------------------


@given(st.text())
def test_a_lane_is_what_its_grammar_says(word):
    import re

    good = bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", word)) and len(word) <= 64
    try:
        assert types.LANE.parse(word) == word
        assert good
    except BadValue:
        assert not good


@given(st.text(st.characters(codec=None)))
def test_a_key_is_trimmed_and_without_controls(word):
    import unicodedata

    try:
        key = types.KEY.parse(word)
    except BadValue:
        return
    assert key == word.strip()
    assert 1 <= len(key) <= limits.KEY_MAX
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in key)


@given(st.text(st.characters(codec=None), max_size=30))
def test_a_tag_is_split_at_the_first_equals_sign(word):
    import re

    try:
        key, value = types.Tag().parse(word)
    except BadValue:
        assert not re.fullmatch(r"[A-Za-z0-9_.:-]+=[^\0\ud800-\udfff]*", word, re.DOTALL)
        return
    assert f"{key}={value}" == word


def test_tag_and_env_limits_name_their_maximum():
    for kind, word, maximum in (
        (types.Tag(), "k" * 129 + "=v", 128),
        (types.Tag(), "k=" + "v" * 1025, 1024),
        (types.EnvVar(), "k" * 129 + "=v", 128),
        (types.EnvVar(), "k=" + "v" * 131_072, 131_071),
    ):
        with pytest.raises(BadValue) as caught:
            kind.parse(word)
        assert caught.value.facts["maximum"] == maximum
        assert caught.value.facts.get("minimum") is None


def test_env_values_are_measured_in_bytes_and_may_hold_any():
    assert types.EnvVar().parse("K=a=b\udcff\n") == ("K", "a=b\udcff\n")
    with pytest.raises(BadValue):
        types.EnvVar().parse("K=" + "é" * 65_536)
    with pytest.raises(BadValue):
        types.EnvVar().parse("K=a\0b")


def test_paths_are_measured_in_bytes():
    assert types.PATH.parse("é" * 2048) == "é" * 2048
    with pytest.raises(BadValue):
        types.PATH.parse("é" * 2049)
    with pytest.raises(BadValue):
        types.PATH.parse("a\0b")


@pytest.mark.parametrize("name", env.RESERVED)
def test_the_workers_own_variables_cannot_be_set(name):
    with pytest.raises(BadValue):
        types.EnvVar(env.RESERVED).parse(f"{name}=1")
    assert types.EnvVar(env.RESERVED).parse("SPOOLCTL_DB=x") == ("SPOOLCTL_DB", "x")


def test_a_note_may_hold_lines_and_an_unpaired_surrogate_is_refused():
    assert types.Text(10).parse("a\nb\té") == "a\nb\té"
    for word in ("\ud800", "a\0b"):
        with pytest.raises(BadValue):
            types.Text(10).parse(word)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("7", ("id", 7)), ("key:nightly", ("key", "nightly")), ("key: a b ", ("key", "a b")),
        ("key:7", ("key", "7")), ("key:key:x", ("key", "key:x")), ("key:1-2", ("key", "1-2")),
        ("12-511", ("range", (12, 511))), ("5-5", ("range", (5, 5))),
    ],
)  # fmt: skip
def test_job_references(word, value):
    assert types.JobRef(ranges=True).parse(word) == value
    if value[0] == "range":
        with pytest.raises(BadValue):
            types.JobRef().parse(word)
    else:
        assert types.JobRef().parse(word) == value


@pytest.mark.parametrize(
    "word",
    ["0-3", "3-0", "1-", "-1", "1-2-3", "a-b", "1--2", "1.5", "", "key:", "KEY:a", "1-99999999999999999999"],
)
def test_what_is_no_job_reference(word):
    for ranges in (False, True):
        with pytest.raises(BadValue):
            types.JobRef(ranges).parse(word)


@pytest.mark.parametrize("word", ["0-3", "1-99999999999999999999", "0", "-1"])
def test_an_id_out_of_range_names_the_range(word):
    with pytest.raises(BadValue) as caught:
        types.JobRef(ranges=True).parse(word)
    assert caught.value.facts == {"minimum": 1, "maximum": limits.INT64_MAX}


def test_a_choice_suggests_the_nearest_word():
    kind = types.Choice("both", "stdout", "stderr")
    with pytest.raises(BadValue) as caught:
        kind.parse("stdotu")
    assert caught.value.did_you_mean == "stdout"
    assert caught.value.facts == {"choices": ["both", "stdout", "stderr"]}


def test_a_list_of_choices_keeps_its_order_and_drops_doubles():
    kind = types.ChoiceList("done", "dead", "canceled")
    assert kind.parse("dead,done,dead") == ["dead", "done"]
    with pytest.raises(BadValue) as caught:
        kind.parse("dead,doen")
    assert caught.value.did_you_mean == "dead,done"
    with pytest.raises(BadValue) as caught:
        kind.parse("doen,nothing")
    assert caught.value.did_you_mean is None


# --- the nearest word -------------------------------------------------------------------------------------


def distance(a, b):
    """Edits between two words, made the plain way."""
    if not a or not b:
        return len(a) + len(b)
    ways = [distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0])]
    if a[:2] == b[1::-1]:
        ways.append(distance(a[2:], b[2:]) + 1)
    return min(ways)


SHORT = st.text(st.sampled_from("abc-"), max_size=4)


@given(SHORT, st.lists(SHORT, max_size=5))
def test_nearest_is_the_first_of_the_closest_within_two_edits(word, known):
    distances = [(distance(word, candidate), candidate) for candidate in known]
    close = [(d, c) for d, c in distances if d <= 2 and 2 * d < max(len(word), len(c))]
    assert nearest(word, known) == (min(close, key=lambda pair: pair[0])[1] if close else None)


def test_a_word_of_which_half_would_change_is_not_meant():
    assert nearest("-f", ["-h", "-q", "-y"]) is None
    assert nearest("stop", ["show", "status"]) is None
    assert nearest("ad", ["add"]) == "add"


def test_nearest_of_a_huge_word_is_quick():
    assert nearest("x" * 1_000_000, ["--queue", "--json"]) is None
