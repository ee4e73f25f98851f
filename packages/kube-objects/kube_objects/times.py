"""Convert the timestamps of objects (RFC 3339 texts) to seconds since the epoch and back."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from kube_objects.errors import DecodeError

_PATTERN: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)",
    re.ASCII,
)


@lru_cache(maxsize=1 << 16)
def parse_time(text: str) -> float:
    """Return the seconds since the epoch; raise `DecodeError` for anything but an RFC 3339 time."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise DecodeError(f"time {text[:40]!r} is malformed; expected one like 2026-01-31T09:57:47Z")
    whole, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(whole + zone)
    except ValueError as error:
        raise DecodeError(f"time {text!r} does not exist: {error}") from error
    seconds = moment.timestamp()
    return seconds + float(fraction) if fraction else seconds


def seconds_of(text: str | None, default: float = 0.0) -> float:
    """Return the seconds since the epoch; `default` for a time that is missing or malformed."""
    try:
        return parse_time(text) if text else default
    except DecodeError:
        return default


def format_time(seconds: float) -> str:
    """Write seconds since the epoch as metadata and conditions carry them: UTC, whole seconds, cut off."""
    return f"{_second(math.floor(seconds))}Z"


def format_micro_time(seconds: float) -> str:
    """Write seconds since the epoch as leases and events carry them: UTC, six decimal places."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == 1_000_000:
        whole, micros = whole + 1, 0
    return f"{_second(whole)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    """Write a second; many things happen in the same one."""
    day, second = divmod(whole, 86_400)
    return f"{_day(day)}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


@lru_cache(maxsize=8)
def _day(number: int) -> str:
    """Write a day since the epoch; it is the same for many seconds, and `strftime` takes a microsecond or two."""
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")
