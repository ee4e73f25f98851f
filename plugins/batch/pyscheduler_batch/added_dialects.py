"""Load the queue dialects of other packages; a dialect reads objects that define queues."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler.framework.errors import PLUGIN_FAILURES, ConfigError
from pyscheduler.framework.plugin_failures import error_text
from pyscheduler.podgroup.values import shown
from pyscheduler_batch.dialects import QueueDialect
from pyscheduler_batch.model.answers import ContractError, is_number
from pyscheduler_batch.model.queue_spec import QueueSpec, QueueState
from pyscheduler_batch.model.values import Warnings, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import KubeObject
    from pyscheduler.framework.extensions import Extensions, Offer

__all__ = ["added_queue_dialects"]

#: The resources without a domain in their names.
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def added_queue_dialects(extensions: Extensions) -> Sequence[QueueDialect]:
    """Return the dialects of queues that distributions add, imported now; raise `ConfigError` for one that is none.

    Their `read` raises `ContractError` if the distribution's raises, or returns no `QueueSpec`.
    """
    return [_queue_row(name, offer) for name, offer in extensions.queue_dialects.items()]


def _queue_row(name: str, offer: Offer) -> QueueDialect:
    whose = f'queue dialect "{name}"'
    row: QueueDialect = offer.load(whose, QueueDialect)
    if row.name != name:
        raise ConfigError(f"{whose}: the row has the name {row.name!r}; write name={name!r}")
    if inspect.iscoroutinefunction(row.read):
        raise ConfigError(f'{whose}: read is async; write "def read(queue)"')
    return attrs.evolve(row, read=_Reader(name, row.read))


@attrs.frozen
class _Reader:
    """The reader of the queues of a distribution's dialect. Equal rows have equal readers."""

    name: str
    read: Callable[[Any], QueueSpec]

    def __call__(self, queue: KubeObject) -> QueueSpec:
        try:
            spec: object = self.read(queue)
        except PLUGIN_FAILURES as error:
            raise self._error(f"read raised {error_text(error)} for queue {queue.name}") from error
        if not isinstance(spec, QueueSpec):
            raise self._error(f"read returned {shown(spec)} for queue {queue.name}, expected a QueueSpec")
        if wrong := _wrong_field(spec):
            raise self._error(f"read returned {wrong}, for queue {queue.name}")
        usable, warnings = _usable_amounts(spec)
        return attrs.evolve(spec, **usable, warnings=(*spec.warnings, *warnings, *_unknown_resources(spec)))

    def _error(self, text: str) -> ContractError:
        code = getattr(self.read, "__code__", None)
        return ContractError(f'queue dialect "{self.name}": {text}', plugin=self.name, kind="dialect", code=code)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_amounts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and (is_number(amount) or amount != amount)  # noqa: PLR0124 - NaN is a value of an object
        for name, amount in value.items()
    )


_AMOUNT_FIELDS: Final = ("quota", "limit", "guarantee", "over_quota_weight")
_TEXT: Final = (_is_text, "a str")
_NUMBER: Final = (is_number, "a number")
_AMOUNTS: Final = (_are_amounts, "numbers by resource")
_SECONDS: Final = (lambda value: value is None or (is_number(value) and value >= 0), "None or a number of 0 or more")
#: By field of a `QueueSpec`: whether a value is right, and what is expected. A wrong one would raise in code that is
#: not to blame.
_FIELDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "name": (lambda value: isinstance(value, str) and value != "", "a str that is not empty"),
    **dict.fromkeys(("uid", "parent", "display_name", "hierarchy", "hierarchy_weights", "error"), _TEXT),
    **dict.fromkeys(("created", "priority", "weight"), _NUMBER),
    **dict.fromkeys(_AMOUNT_FIELDS, _AMOUNTS),
    **dict.fromkeys(("preempt_min_runtime", "reclaim_min_runtime"), _SECONDS),
    "reclaimable": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "state": (lambda value: isinstance(value, str) and value in [*QueueState], f"one of {', '.join(QueueState)}"),
    "affinity": (lambda value: isinstance(value, Mapping), "a map"),
    "warnings": (lambda value: isinstance(value, (list, tuple)) and all(map(_is_text, value)), "a tuple of str"),
}


def _wrong_field(spec: QueueSpec) -> str:
    """Return what is wrong with the first field whose value is not what `QueueSpec` says, or ""."""
    for field, (is_right, expected) in _FIELDS.items():
        value = getattr(spec, field)
        if not is_right(value):
            return f"{field}={shown(value)}, expected {expected}"
    return ""


def _usable_amounts(spec: QueueSpec) -> tuple[dict[str, Any], list[str]]:
    """Return the fields whose amounts are not all 0 or more, with 0 for the others, and a sentence about each of these.

    Such amounts come from an object as a rule: they must neither grant resources nor stop other queues.
    """
    usable: dict[str, Any] = {}
    warnings: Warnings = []
    for field in _AMOUNT_FIELDS:
        amounts = getattr(spec, field)
        wrong = {name: 0.0 for name, amount in amounts.items() if not amount >= 0}
        for name in wrong:
            warn(warnings, f"{field} of {name}", amounts[name], "is not a number of 0 or more; 0 counts")
        if wrong:
            usable[field] = {**amounts, **wrong}
    return usable, warnings


def _unknown_resources(spec: QueueSpec) -> list[str]:
    """Return a sentence about each amount of a resource that no pod can request."""
    return [
        f'{field} names "{resource}", which no pod requests'
        + ('; GPUs are "nvidia.com/gpu"' if resource.lower() in {"gpu", "gpus"} else "")
        for field in _AMOUNT_FIELDS
        for resource in getattr(spec, field)
        if not ("/" in resource or resource in _NATIVE or resource.startswith("hugepages-"))
    ]
