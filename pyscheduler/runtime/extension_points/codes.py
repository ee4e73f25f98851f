"""The status codes that a plugin may return at each extension point. Any other code is an error of the plugin.

Source: kube-scheduler 1.36, `framework/runtime/framework.go` and the comments of the interfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.framework.status import Status

__all__ = ["ALLOWED_CODES", "unexpected_code"]

_REJECTIONS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_FAILS_ONLY: Final = (Code.SUCCESS, Code.ERROR)

#: By the label of the extension point. SUCCESS is what None stands for, ERROR what an exception stands for. Without
#: SUCCESS, a success is a value: scores, placements.
ALLOWED_CODES: Final[Mapping[str, tuple[Code, ...]]] = {
    "PreEnqueue": (Code.SUCCESS, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "PreFilter": (Code.SUCCESS, Code.SKIP, *_REJECTIONS, Code.ERROR),
    "PreFilterExtensionAddPod": _FAILS_ONLY,
    "PreFilterExtensionRemovePod": _FAILS_ONLY,
    "Filter": (Code.SUCCESS, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "PostFilter": (Code.SUCCESS, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "PreScore": (Code.SUCCESS, Code.SKIP, Code.ERROR),
    "Score": (Code.ERROR,),
    "ScoreExtensionNormalize": _FAILS_ONLY,
    "Reserve": (Code.SUCCESS, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "Permit": (Code.SUCCESS, Code.WAIT, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "PreBindPreFlight": (Code.SUCCESS, Code.SKIP, Code.ERROR),
    "PreBind": (Code.SUCCESS, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "Bind": (Code.SUCCESS, Code.SKIP, *_REJECTIONS, Code.PENDING, Code.ERROR),
    "PlacementGenerate": (*_REJECTIONS, Code.PENDING, Code.ERROR),
    "PlacementScore": (Code.ERROR,),
    "PlacementScoreExtensionNormalize": _FAILS_ONLY,
}

#: Where another extension point than the one that returned the code is the right place for it.
_ELSEWHERE: Final[Mapping[tuple[str, Code], str]] = {
    ("Filter", Code.SKIP): "; return Status.skip() from pre_filter",
    ("Score", Code.SKIP): "; return Status.skip() from pre_score",
    ("PreBind", Code.SKIP): "; return Status.skip() from pre_bind_pre_flight",
}


def unexpected_code(point: str, status: Status) -> str:
    """Return a sentence about a status whose code `point` does not allow, with the codes that it allows."""
    said = f' ("{status.message}")' if status.message else ""
    allowed = ", ".join(code.label for code in ALLOWED_CODES[point])
    hint = _ELSEWHERE.get((point, status.code), "")
    if not hint and status.is_wait:
        hint = "; only permit may return Status.wait(...)"
    return f"{point} returned the code {status.code.label}{said}; its codes are {allowed}{hint}"
