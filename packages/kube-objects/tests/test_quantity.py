"""Quantities: what is accepted, what it is worth, and how it rounds."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal, localcontext

import pytest
from hypothesis import example, given, strategies as st

from kube_objects.errors import PySchedulerError, QuantityError
from kube_objects.quantity import (
    MAX_INT64,
    NANO,
    format_quantity,
    milli_of,
    parse_quantity,
    quantity_milli,
    quantity_value,
    value_of,
)

KI, MI, GI, TI, PI, EI = (1024**power for power in range(1, 7))


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param(text, nanos, id=text)
        for text, nanos in [
            ("0", 0),
            ("0n", 0),
            ("0Ki", 0),
            ("-0", 0),
            ("1", NANO),
            ("+2", 2 * NANO),
            ("-3", -3 * NANO),
            ("007", 7 * NANO),
            # binary suffixes
            ("1Ki", KI * NANO),
            ("7Mi", 7 * MI * NANO),
            ("6Gi", 6 * GI * NANO),
            ("5Ti", 5 * TI * NANO),
            ("4Pi", 4 * PI * NANO),
            ("3Ei", 3 * EI * NANO),
            ("1.5Gi", 3 * GI // 2 * NANO),
            ("0.5Mi", MI // 2 * NANO),
            ("0.05Gi", 53687091_200000000),
            ("100.035Ki", 102435_840000000),
            (".5Ki", 512 * NANO),
            # decimal suffixes
            ("5n", 5),
            ("4u", 4_000),
            ("3m", 3_000_000),
            ("8k", 8_000 * NANO),
            ("7M", 7 * 10**6 * NANO),
            ("6G", 6 * 10**9 * NANO),
            ("5T", 5 * 10**12 * NANO),
            ("2P", 2 * 10**15 * NANO),
            ("1E", 10**18 * NANO),
            ("250000u", 250_000_000),
            ("100.035k", 100_035 * NANO),
            ("6.987654321G", 6_987_654_321 * NANO),
            # exponents
            ("1e3", 1000 * NANO),
            ("1E3", 1000 * NANO),
            ("1.3E+6", 1_300_000 * NANO),
            ("0.5e-2", 5_000_000),
            ("1e-9", 1),
            # like floating point
            ("0.25", 250_000_000),
            ("4.0", 4 * NANO),
            ("1.", NANO),
            ("1.G", 10**9 * NANO),
            (".001", 1_000_000),
            # more precise than a billionth: up
            ("3.001n", 4),
            ("0.9n", 1),
            ("0.0000000001", 1),
            ("0.00000012345", 124),
            ("0.000000000001Ki", 2),
            ("-0.0000000001", -1),
        ]
    ],
)
def test_a_quantity_is_a_whole_number_of_billionths(text: str, nanos: int) -> None:
    """Every notation of an amount is read exactly; only what is finer than a billionth rounds up."""
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        pytest.param("100m", 1, 100, id="a tenth is one unit"),
        pytest.param("1500m", 2, 1500, id="one and a half are two"),
        pytest.param("0.5m", 1, 1, id="half a thousandth is one"),
        pytest.param("1n", 1, 1, id="as little as there is"),
        pytest.param("1000.0001", 1001, 1_000_001, id="one ten-thousandth too many"),
        pytest.param("2", 2, 2000, id="whole"),
        pytest.param("0", 0, 0, id="nothing"),
        pytest.param("-1.5", -2, -1500, id="away from zero"),
        pytest.param("1Ei", EI, MAX_INT64, id="thousandths end at 64 bits"),
        pytest.param("9Ei", MAX_INT64, MAX_INT64, id="binary cap"),
        pytest.param("12E", MAX_INT64, MAX_INT64, id="decimal cap"),
        pytest.param("-12E", -MAX_INT64, -MAX_INT64, id="negative cap"),
    ],
)
def test_rounding_goes_away_from_zero_and_ends_at_64_bits(text: str, value: int, milli: int) -> None:
    """Whoever asks for a little shall not get nothing, and an impossible amount stays impossible."""
    assert quantity_value(text) == value
    assert quantity_milli(text) == milli


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=ascii(text))
        for text in [
            *["", " ", "+", "-", ".", "+.", "Ki", "m", ".Ki"],
            *["1_000", "1,5", "1 ", " 1", "1 Gi", "1\n", "\t1", "1\x00"],
            *["\uff11", "\u0663", "1\u066b5", "\u00bd", "\u00b2"],
            *["inf", "Infinity", "nan", "0x10", "1.1.M", "1+1.0M", "--1", "++1"],
            *["1K", "1ki", "1kI", "1mi", "1ni", "1i", ".5i", "0.1am", "1KiB", "1Gb", "1g", "1Zi", "1Y"],
            *["1e", "1e+", "-3.01e-", "1e3m", "1m3", "1Ki5", "1e1.5", "1eE3"],
            "1e99999999999999999999",
            "True",
            "null",
        ]
    ],
)
def test_what_the_api_server_refuses_is_refused(text: str) -> None:
    """No underscore, blank, foreign digit or unknown suffix passes; the error names the text."""
    with pytest.raises(
        QuantityError, match=r"^quantity .* is malformed; write it like 500m, 2, 1\.5Gi or 1e3$"
    ) as caught:
        parse_quantity(text)
    assert ascii(text)[1:-1][:20] in ascii(str(caught.value)).replace("\\\\", "\\")
    assert isinstance(caught.value, (PySchedulerError, ValueError))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param("9" * 100_000, MAX_INT64 * NANO, id="long whole part"),
        pytest.param("9" * 100_000 + "Ki", MAX_INT64 * NANO, id="long whole part, binary"),
        pytest.param("0" * 100_000 + "1", NANO, id="leading zeros"),
        pytest.param("1" + "0" * 100_000 + "e-100000", NANO, id="zeros cancelled by the exponent"),
        pytest.param("0." + "0" * 100_000 + "1", 1, id="long fraction"),
        pytest.param("1." + "0" * 100_000 + "1Ki", 1024 * NANO + 1, id="long fraction, binary"),
        pytest.param("0." + "0" * 100_000, 0, id="long zero"),
        pytest.param("1e999999999999", MAX_INT64 * NANO, id="huge exponent"),
        pytest.param("1e-999999999999", 1, id="tiny exponent"),
        pytest.param("0e999999999999", 0, id="huge exponent of nothing"),
        pytest.param("-1e999999999999", -MAX_INT64 * NANO, id="huge and negative"),
    ],
)
def test_absurd_sizes_are_read_without_effort(text: str, nanos: int) -> None:
    """No text makes the reader compute a number of a million digits; the suite's time limit watches over it."""
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("raw", "nanos"),
    [
        pytest.param(2, 2 * NANO, id="int"),
        pytest.param(0.25, NANO // 4, id="float"),
        pytest.param(0.1, NANO // 10, id="float that is no binary fraction"),
        pytest.param(1e21, MAX_INT64 * NANO, id="large float"),
        pytest.param(2**200, MAX_INT64 * NANO, id="large int"),
    ],
)
def test_bare_numbers_count_as_written(raw: float, nanos: int) -> None:
    """A JSON number means its decimal text, not its binary approximation."""
    assert parse_quantity(raw) == nanos


def test_sums_are_rounded_once() -> None:
    """Two halves of a byte are one byte."""
    assert value_of(parse_quantity("0.5") + parse_quantity("500m")) == 1
    assert milli_of(parse_quantity("0.4m") + parse_quantity("0.4m")) == 1


SUFFIXES = {"": 1, "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": 10**3, "M": 10**6}
SUFFIXES |= {"G": 10**9, "T": 10**12, "P": 10**15, "Ki": KI, "Mi": MI, "Gi": GI, "Ti": TI, "Pi": PI}

quantities = st.builds(
    lambda sign, whole, fraction, suffix: sign + whole + fraction + suffix,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**6).map(str),
    st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=12).map(lambda digits: f".{digits}")),
    st.sampled_from(sorted(SUFFIXES)),
)


def reference(text: str) -> Decimal:
    """Return the value of a quantity the plain way."""
    number = text.rstrip("numkMGTPKi")
    return Decimal(number) * SUFFIXES[text[len(number) :]]


@given(quantities)
@example("1048576Pi")
@example("889.0000000001Pi")
def test_values_agree_with_plain_decimal_arithmetic(text: str) -> None:
    """Any number with any suffix is worth what the textbook says, rounded away from zero."""
    with localcontext(prec=100):  # Decimal's usual 28 digits would round what we compute exactly
        exact = reference(text)
        nanos = int((exact * NANO).to_integral_value(ROUND_UP))
        value = int(exact.to_integral_value(ROUND_UP))
    if abs(nanos) <= MAX_INT64 * NANO:
        assert parse_quantity(text) == nanos
        assert quantity_value(text) == value


@given(quantities)
@example("889.0000000001Pi")
def test_values_agree_with_the_official_client(text: str) -> None:
    """On what the official client reads the way the API server does, both give the same number."""
    official = pytest.importorskip("kubernetes.utils.quantity").parse_quantity

    with localcontext(prec=100):
        exact = official(text)
        nanos = int((exact * NANO).to_integral_value(ROUND_UP))
    if abs(exact) < MAX_INT64:
        assert parse_quantity(text) == nanos


@given(quantities, quantities)
def test_order_is_kept(one: str, other: str) -> None:
    """A larger amount never rounds to less than a smaller one."""
    if parse_quantity(one) <= parse_quantity(other):
        assert quantity_value(one) <= quantity_value(other)
        assert quantity_milli(one) <= quantity_milli(other)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    """No input breaks the reader in another way."""
    try:
        nanos = parse_quantity(text)
    except QuantityError:
        return
    assert abs(nanos) <= MAX_INT64 * NANO


@pytest.mark.parametrize(
    ("nanos", "is_binary", "text"),
    [
        (0, True, "0"),
        (1, False, "1n"),
        (1500 * 10**6, True, "1500m"),
        (1000 * NANO, True, "1k"),
        (1024 * NANO, True, "1Ki"),
        (1024 * NANO, False, "1024"),
        (1536 * 2**20 * NANO, True, "1536Mi"),
        (-2048 * NANO, True, "-2Ki"),
        (10**22 * NANO, False, "10000E"),
        (2**70 * NANO, True, "1024Ei"),
    ],
)
def test_canonical_text(nanos: int, is_binary: bool, text: str) -> None:
    """The text has the largest suffix that leaves no fraction, as Kubernetes writes amounts."""
    assert format_quantity(nanos, is_binary=is_binary) == text
