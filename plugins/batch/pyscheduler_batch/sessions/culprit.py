"""Find the plugin or action that made a scheduling round fail, by the traceback of the error."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.callables import receiver
from pyscheduler.framework.errors import APIError, PluginError, TransportError
from pyscheduler.framework.plugin_failures import error_place, error_text
from pyscheduler_batch.contract import Action, Policy
from pyscheduler_batch.model.answers import ContractError
from pyscheduler_batch.model.batch_plugin import BatchPlugin

if TYPE_CHECKING:
    from types import CodeType

__all__ = ["Culprit", "culprit_of"]

_KINDS: Final = {Policy: "policy", Action: "action", BatchPlugin: "plugin"}


@attrs.frozen
class Culprit:
    """The policy, action or plugin whose method raised or broke the contract; `code` is the method's, if known."""

    kind: str
    name: str
    code: CodeType | None

    def text(self, error: BaseException) -> str:
        """Return one line: whose failure it is, what happened, and where."""
        if isinstance(error, PluginError):
            # It names the policy whose answer is wrong.
            place = isinstance(error, ContractError) and error_place(error, self.code)
            return f"{error_text(error)}, {place}" if place else error_text(error)
        return f'{self.kind} "{self.name}": {error_text(error)}, {error_place(error, self.code)}'


def culprit_of(error: BaseException) -> Culprit | None:
    """Return whose method raised `error`, the innermost of several.

    None if no policy, action or plugin took part, or if it passed on an error of the API server.
    """
    if isinstance(error, (APIError, TransportError)):
        return None
    if isinstance(error, ContractError):
        return Culprit(error.kind, error.plugin, error.code)
    found: Culprit | None = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = receiver(frame)
        for kind, label in _KINDS.items():
            if isinstance(owner, kind):
                found = Culprit(label, getattr(owner, "name", type(owner).__name__), frame.f_code)
    if found is not None and isinstance(error, PluginError) and error.plugin:
        return attrs.evolve(found, kind="policy", name=error.plugin)
    return found
