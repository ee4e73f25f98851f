"""Match names of objects with regular expressions in Go's syntax. A pattern is refused if a match takes too long."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kube_cel import CelCancelledError, Meter
from kube_cel.regex import Regex, RegexError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PatternError", "matching"]

#: A pattern that takes more steps for one name is refused.
_MOST_STEPS: Final = 20_000
#: Characters and classes, repeated or not, anchors and alternatives: they mean the same in Go and in Python.
_TOKEN: Final = re.compile(
    r"(?:[\w.-]|\\[.d-]|\[\^?(?:[a-zA-Z0-9_.](?:-[a-zA-Z0-9_.])?)+\])(?P<repeat>[*+?]|\{\d+(?:,\d*)?\})?|[\^$|()]",
    re.ASCII,
)
#: Python's module is fast, but takes long for some patterns with more repetitions than this, or with more groups.
_FEW_REPEATS: Final = 3


class PatternError(ValueError):
    """Report a text that is no regular expression, or one that takes too long."""


@lru_cache(maxsize=1024)
def matching(pattern: str, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return bool[N], read-only: the names in which the pattern matches; raise `PatternError`."""
    meter = Meter()

    def pause() -> None:
        if meter.steps > _MOST_STEPS:
            raise CelCancelledError

    meter.pause = pause
    try:
        regex = Regex(pattern, meter)
        if _is_plain(pattern):
            found = [*map(re.compile(pattern, re.ASCII).search, names)]
            return _frozen([each is not None for each in found])
        answers = []
        for name in names:
            meter.steps = 0
            answers.append(regex.search(name, meter, shortest=True) is not None)
    except RegexError as error:
        # What follows quotes the pattern, which may be long.
        raise PatternError(str(error).partition(": `")[0]) from None
    except CelCancelledError:
        raise PatternError("it takes too long; write a shorter one") from None
    return _frozen(answers)


def _frozen(answers: list[bool]) -> NDArray[np.bool_]:
    found = np.array(answers, dtype=np.bool_)
    found.flags.writeable = False
    return found


def _is_plain(pattern: str) -> bool:
    """Return whether a pattern means the same in Python and cannot take long there."""
    at = repeats = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return False
        repeats += token["repeat"] is not None
        at = token.end()
    return repeats <= _FEW_REPEATS and pattern.count("(") <= 1
