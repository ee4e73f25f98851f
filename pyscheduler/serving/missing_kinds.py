"""Warn at the start if plugins read kinds that the API server does not serve."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import BUILT_IN_KINDS
from pyscheduler.cluster.real.informer import RealInformer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.runtime.assembly.permissions import Need
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["warn_of_missing_kinds"]

_log = logging.getLogger(__name__)

#: How many kinds a line names.
_NAMED: Final = 10


def _missing_kinds(scheduler: Scheduler) -> Mapping[str, Sequence[str]]:
    """Return by plugin the kinds that it reads and the server does not serve, each as `plural.group`."""
    read: dict[str, list[RealInformer[KubeObject]]] = {}
    needs = scheduler.needs()
    for informer in scheduler.others:
        if isinstance(informer, RealInformer) and informer.kind not in BUILT_IN_KINDS:
            for plugin in _readers(informer.kind, needs):
                read.setdefault(plugin, []).append(informer)
    found = {}
    for plugin, informers in read.items():
        served = {each.kind.plural for each in informers if not each.is_absent}
        found[plugin] = [each.resource for each in informers if each.is_absent and each.kind.plural not in served]
    return {plugin: kinds for plugin, kinds in found.items() if kinds}


def _readers(kind: ResourceKind, needs: Iterable[Need]) -> Iterable[str]:
    """Return who watches a kind, in words for the reader of a role."""
    return dict.fromkeys(
        need.who
        for need in needs
        if kind.plural in need.rule.resources and kind.group in need.rule.api_groups and "watch" in need.rule.verbs
    )


def warn_of_missing_kinds(scheduler: Scheduler) -> None:
    """Log a line for each plugin that reads kinds that the server does not serve."""
    for plugin, kinds in _missing_kinds(scheduler).items():
        more = f" and {len(kinds) - _NAMED} more" if len(kinds) > _NAMED else ""
        _log.warning(
            "CustomResourceDefinitions are missing; the objects count as absent until they are installed "
            "plugin=%s kinds=%s",
            plugin,
            f"{','.join(kinds[:_NAMED])}{more}",
        )
