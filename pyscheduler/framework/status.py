"""`Status`: the answer of a plugin, a `Code` with reasons. None means success.

A `Status` does not change, so a plugin may return one constant for every node.
"""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from math import isnan
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import text_of, without_frames

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_SCORE", "MAX_TOTAL_SCORE", "MIN_SCORE", "Code", "Status"]

#: Bounds of a normalised score, and the largest total, as in kube-scheduler.
MAX_SCORE: Final = 100
MIN_SCORE: Final = 0
MAX_TOTAL_SCORE: Final = 2**63 - 1


class Code(IntEnum):
    """The outcome of an extension point; numbers equal kube-scheduler's. `label` is the text users see."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """Return kube-scheduler's spelling, as in metrics and logs (`UnschedulableAndUnresolvable`)."""
        return _LABELS[self]


_LABELS: Final = (
    "Success",
    "Error",
    "Unschedulable",
    "UnschedulableAndUnresolvable",
    "Wait",
    "Skip",
    "Pending",
)

#: Asked for thirty times per pod, and an attribute of an Enum is not found at once.
_SUCCESS: Final = Code.SUCCESS
_ERROR: Final = Code.ERROR
_WAIT: Final = Code.WAIT
_SKIP: Final = Code.SKIP
_REJECTED: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status:
    """A code, the reasons users will read, and the plugin that gave it. Immutable by convention.

    Reasons that are not text (an exception, say) are taken as they print. `error` keeps the exception behind an ERROR
    or a rejection (a `FitError`), and takes its traceback away; its text then stands before the reasons: of an
    `APIError` what the server said.
    `timeout_seconds` is set by `Status.wait` only.

    `retry_after_seconds` belongs to rejections at PreEnqueue, PreFilter, Filter, PostFilter, Reserve and Permit: when
    this time has passed since the end of the attempt, the pod is retried as after an event that helps it. Of several,
    the shortest counts; less than a second counts as one second. Raises `TypeError` or `ValueError` if it is no number.
    """

    __slots__ = ("code", "error", "plugin", "reasons", "retry_after_seconds", "timeout_seconds")

    code: Code
    reasons: tuple[str, ...]
    plugin: str
    error: BaseException | None
    timeout_seconds: float | None
    retry_after_seconds: float | None

    def __init__(
        self,
        code: Code,
        reasons: Iterable[str] | str = (),
        *,
        plugin: str = "",
        error: BaseException | None = None,
        timeout_seconds: float | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        texts = (reasons,) if isinstance(reasons, str) else tuple(map(str, reasons))
        self.code = code
        self.error = None if error is None else without_frames(error)
        self.reasons = (text_of(error), *texts) if error is not None else texts
        self.plugin = plugin
        self.timeout_seconds = timeout_seconds
        if retry_after_seconds is not None:
            _check_seconds(retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def unschedulable(cls, *reasons: str, retry_after: float | None = None) -> Status:
        """Reject: the pod does not fit now; preemption, a cluster event or `retry_after` seconds may help."""
        return cls(Code.UNSCHEDULABLE, reasons, retry_after_seconds=retry_after)

    @classmethod
    def unresolvable(cls, *reasons: str, retry_after: float | None = None) -> Status:
        """Reject, and say that preempting pods cannot help (UnschedulableAndUnresolvable); time may help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, retry_after_seconds=retry_after)

    @classmethod
    def skip(cls) -> Status:
        """Ask not to be called at this cycle's coupled extension point (or, at Bind, leave the pod to the next)."""
        return _SKIPPED

    @classmethod
    def wait(cls, *reasons: str, timeout: float) -> Status:
        """Hold the pod at Permit for at most `timeout` seconds."""
        return cls(Code.WAIT, reasons, timeout_seconds=timeout)

    @classmethod
    def from_error(cls, error: BaseException) -> Status:
        """Wrap an exception as ERROR; the pod is retried after a backoff."""
        return cls(Code.ERROR, error=error)

    @property
    def message(self) -> str:
        """Join the reasons as users see them."""
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        """Return whether the code is SUCCESS."""
        return self.code == _SUCCESS

    @property
    def is_wait(self) -> bool:
        """Return whether the code is WAIT."""
        return self.code == _WAIT

    @property
    def is_skip(self) -> bool:
        """Return whether the code is SKIP."""
        return self.code == _SKIP

    @property
    def is_error(self) -> bool:
        """Return whether the code is ERROR."""
        return self.code == _ERROR

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was refused: Unschedulable, UnschedulableAndUnresolvable or Pending."""
        return self.code in _REJECTED

    def as_error(self) -> BaseException | None:
        """Return the exception behind this status, one made of its message, or None for Success, Wait and Skip."""
        if self.code in {Code.SUCCESS, Code.WAIT, Code.SKIP}:
            return None
        return self.error if self.error is not None else RuntimeError(self.message)

    def with_plugin(self, plugin: str) -> Status:
        """Return this status in the name of `plugin`; itself where it already is."""
        if self.plugin == plugin:
            return self
        named = Status.__new__(Status)
        named.code = self.code
        named.reasons = self.reasons
        named.error = self.error
        named.timeout_seconds = self.timeout_seconds
        named.retry_after_seconds = self.retry_after_seconds
        named.plugin = plugin
        return named

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin, self.timeout_seconds, self.retry_after_seconds) == (
            other.code,
            other.reasons,
            other.plugin,
            other.timeout_seconds,
            other.retry_after_seconds,
        )

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin))

    def __repr__(self) -> str:
        by = f", plugin={self.plugin!r}" if self.plugin else ""
        return f"Status({self.code.label}, {list(self.reasons)!r}{by})"


def _check_seconds(seconds: object) -> None:
    """Raise `TypeError` or `ValueError` unless these are seconds; of others' code, types prove nothing."""
    if isinstance(seconds, timedelta):
        raise TypeError("retry_after takes seconds, not a timedelta; write retry_after=delta.total_seconds()")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"retry_after takes seconds as a number, not {seconds!r}; None means that time does not help")
    if isnan(seconds):
        raise ValueError("retry_after is not a number: give seconds, or None if time does not help")


#: Most plugins skip most pods, so this one is made once.
_SKIPPED: Final = Status(Code.SKIP)
