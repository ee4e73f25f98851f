"""Warn about new problems of a gang, such as unusable values, or members with different settings or priorities."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler_gang.record import GangRecord

__all__ = ["warn_about_gang"]

_log = logging.getLogger(__name__)


def warn_about_gang(record: GangRecord, pod: Pod, handle: Handle) -> None:
    """Record a Warning event on the member that is tried, once for each version of the gang with new problems."""
    group = record.state.group
    if record.priority is None:
        record.priority = pod.priority
    elif record.priority != pod.priority and not record.is_mixed:
        record.is_mixed = True
        _log.warning(
            "Members of a gang have different priorities, so they are not tried one after another gang=%s", record.id
        )
    if record.warned is group:
        return
    before = record.warned
    record.warned = group
    known = () if before is None else (*map(str, before.problems), *before.disagreements)
    texts = [text for text in (*map(str, group.problems), *group.disagreements) if text not in known]
    if not texts:
        return
    note = f"gang {record.id}: {'; '.join(texts)}"
    handle.event_recorder.event(pod, type="Warning", reason="InconsistentGang", action="Scheduling", note=note)
