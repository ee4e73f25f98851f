"""The exceptions that compiling or evaluating an expression can raise."""

from __future__ import annotations

from typing import Final

__all__ = ["COST_EXCEEDED", "CelCancelledError", "CelCompileError", "CelError", "CelInternalError"]

COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class CelCompileError(Exception):
    """Report an expression that cannot be compiled; the text is cel-go's."""


class CelError(Exception):
    """Report that an evaluation failed; ``||``, ``&&`` and the macros built on them may absorb this error."""


class CelInternalError(Exception):
    """Report that an evaluation failed in a way that nothing absorbs, where cel-go's panics."""


class CelCancelledError(CelInternalError):
    """Report that an evaluation cost too much time or memory."""

    def __init__(self) -> None:
        super().__init__(COST_EXCEEDED)
