"""CEL's timestamps and durations: parsing, printing, sums, differences, and parts such as the hour."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from kube_cel.errors import CelError
from kube_cel.values import MAX_INT, MIN_INT, Duration, Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "add_time",
    "between",
    "duration_of",
    "parse_duration",
    "parse_timestamp",
    "show_duration",
    "show_timestamp",
    "timestamp_of",
    "timestamp_part",
]

_FIRST: Final = -62135596800
_LAST: Final = 253402300799
_SECOND: Final = 10**9
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - zones are added as seconds
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND
}  # fmt: skip
_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:(Z)|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_OFFSET: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONGEST: Final = 512


def duration_of(nanos: int) -> Duration:
    """Return a duration; raise `CelError` where it is too long."""
    if not MIN_INT <= nanos <= MAX_INT:
        raise CelError("integer overflow")
    return Duration(nanos)


def timestamp_of(seconds: int, nanos: int = 0, offset: int = 0) -> Timestamp:
    """Return a moment; raise `CelError` outside the years 1 to 9999."""
    if not _FIRST <= seconds <= _LAST:
        raise CelError("timestamp overflow")
    return Timestamp(seconds, nanos, offset)


def parse_duration(text: str) -> Duration:
    """Return the duration that a text as ``1h30m`` stands for; raise `CelError`."""
    failed = CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > _LONGEST:
        raise failed
    nanos, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match["whole"] or match["fraction"]):
            raise failed
        unit = _UNITS[match["unit"]]
        nanos += int(match["whole"] or 0) * unit
        if match["fraction"]:
            nanos += int(Fraction(int(match["fraction"]), 10 ** len(match["fraction"])) * unit)
        if nanos > MAX_INT + 1:
            raise failed
        at = match.end()
    nanos = -nanos if text[0] == "-" else nanos
    if nanos > MAX_INT:
        raise failed
    return Duration(nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Return the moment that a text in the form of RFC 3339 stands for; raise `CelError`."""
    failed = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise failed
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    offset = 0
    if not match[8]:
        east = int(match[10]) * 3600 + int(match[11]) * 60
        if int(match[10]) > 24 or int(match[11]) >= 60:
            raise failed
        offset = -east if match[9] == "-" else east
    nanos = int((match[7] or "0")[:9].ljust(9, "0"))
    if hour > 23 or minute > 59 or second > 59:
        raise failed
    try:
        # Year 0 is a year in Go; it is too early for a timestamp unless the zone says otherwise.
        moment = dt.datetime(year or 4, month, day, hour, minute, second)  # noqa: DTZ001 - the offset is added
    except ValueError:
        raise failed from None
    seconds = int((moment - _EPOCH) / dt.timedelta(seconds=1)) - offset
    if not year:
        seconds -= 1461 * 86400
    return timestamp_of(seconds, nanos, offset)


def show_duration(value: Duration) -> str:
    """Return a duration as a text."""
    whole, rest = divmod(abs(value.nanos), _SECOND)
    # Go goes through a floating-point number of seconds.
    seconds = float(whole) + rest / 1e9
    sign = "-" if value.nanos < 0 else ""
    return f"{sign}{format(Decimal(repr(seconds)), 'f').removesuffix('.0')}s"


def show_timestamp(value: Timestamp) -> str:
    """Return a moment in the form of RFC 3339, in its own time zone."""
    moment = _civil(value.seconds + value.offset)
    text = moment.isoformat(timespec="seconds")
    if value.nanos:
        text += f".{value.nanos:09d}".rstrip("0")
    if not value.offset:
        return f"{text}Z"
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    return f"{text}{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def _civil(seconds: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def add_time(moment: Timestamp, nanos: int) -> Timestamp:
    """Return a moment so much later; raise `CelError` where there is none."""
    seconds, rest = divmod(moment.nanos + nanos, _SECOND)
    return timestamp_of(moment.seconds + seconds, rest, moment.offset)


def between(later: Timestamp, earlier: Timestamp) -> Duration:
    """Return how much later one moment is than another; raise `CelError` where that is too long."""
    seconds = later.seconds - earlier.seconds
    if not MIN_INT <= seconds * _SECOND <= MAX_INT:
        raise CelError("integer overflow")
    return duration_of(seconds * _SECOND + later.nanos - earlier.nanos)


_PARTS: Final[dict[str, Callable[[dt.datetime], int]]] = {
    "getFullYear": lambda civil: civil.year,
    "getMonth": lambda civil: civil.month - 1,
    "getDayOfYear": lambda civil: civil.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda civil: civil.day - 1,
    "getDate": lambda civil: civil.day,
    "getDayOfWeek": lambda civil: (civil.weekday() + 1) % 7,
    "getHours": lambda civil: civil.hour,
    "getMinutes": lambda civil: civil.minute,
    "getSeconds": lambda civil: civil.second,
}


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(zone: str, seconds: int) -> int:
    """Return how many seconds east of UTC a zone is at a moment; raise `CelError` for what is no zone."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        numbers: list[int] = []
        for part in (hours, minutes):
            if not _OFFSET.fullmatch(part) or len(part) > 9:
                shown = part if len(part) <= _LONGEST else part[:_LONGEST]
                raise CelError(f'strconv.Atoi: parsing "{shown}": invalid syntax')
            numbers.append(int(part))
        east = numbers[0] * 60 + (-numbers[1] if zone[0] == "-" else numbers[1])
        return east * 60
    if zone in ("", "UTC"):
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise CelError("time: invalid location name")
    found = _zone(zone) if len(zone) < 64 else None
    if found is None:
        raise CelError(f"unknown time zone {zone[:_LONGEST]}")
    moment = _civil(seconds).replace(tzinfo=dt.UTC)
    offset = moment.astimezone(found).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def timestamp_part(part: str, moment: Timestamp, zone: str) -> int:
    """Return the year, month, day ... of a moment in a time zone; raise `CelError`."""
    civil = _civil(moment.seconds + _offset(zone, moment.seconds))
    if part == "getMilliseconds":
        return moment.nanos // 10**6
    return _PARTS[part](civil)
