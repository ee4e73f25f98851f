"""MaintenanceWindows: place no pod on a node whose maintenance would begin before the pod ends."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import Final

import attrs
import numpy as np

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Node,
    Nodes,
    NodeStatuses,
    Pod,
    QueueingHint,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.plugin_args import Duration

#: How a label value writes a moment, in UTC. Label values allow no colon.
FORMAT: Final = "%Y%m%dT%H%MZ"
UNREADABLE: Final = Status.unresolvable("node(s) had an unreadable maintenance window")


@attrs.frozen(kw_only=True)
class MaintenanceWindowsArgs:
    """The node label with the window; and how long a pod is taken to run that does not limit its time."""

    window_label: str = attrs.field(default="example.com/maintenance", validator=attrs.validators.min_len(1))
    expected_runtime_seconds: Duration = attrs.field(default=3600.0, validator=attrs.validators.ge(0))


class MaintenanceWindows(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Reject nodes on which the pod would still run when their maintenance begins, until it is over."""

    # No `reuse`: the answer depends on the time. `sign_pod` still lets the other plugins of the profile have a cache.
    args_type = MaintenanceWindowsArgs
    args: MaintenanceWindowsArgs

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        label = nodes.labels(self.args.window_label)
        now = self.handle.clock.wall()
        # A window is judged once per distinct value, not once per node.
        ends = np.array([closed_until(text, now, now + self.runtime_of(pod)) for text in label.values])
        until = ends[label.ids]
        if not until.any():
            return None
        statuses = NodeStatuses(len(nodes))
        statuses.fail(np.isinf(until), UNREADABLE)
        closed = (until > 0) & np.isfinite(until)
        if closed.any():
            # The earliest end is enough: the next attempt finds the one after it.
            wait = float(until[closed].min()) - now
            statuses.fail(closed, Status.unresolvable("node(s) were close to or under maintenance", retry_after=wait))
        return statuses

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(changed, self.after_node_change)]

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry also if the new window is closed for the pod: only an attempt finds out when it ends."""
        key = self.args.window_label
        if isinstance(old, Node) and isinstance(new, Node) and old.labels.get(key) == new.labels.get(key):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("MaintenanceWindows/runtime", self.runtime_of(pod)),)

    def runtime_of(self, pod: Pod) -> float:
        """Return for how many seconds the pod may run."""
        limit = pod.spec.active_deadline_seconds
        return self.args.expected_runtime_seconds if limit is None else float(limit)


def closed_until(text: str | None, now: float, done: float) -> float:
    """Return when a node takes pods again that are `done` by then; 0 if it takes them now, infinity if unreadable."""
    if text is None:
        return 0.0
    window = parse_window(text)
    if window is None:
        return inf
    begin, end = window
    return end if now < end and done > begin else 0.0


@lru_cache(maxsize=4096)
def parse_window(text: str) -> tuple[float, float] | None:
    """Return begin and end of `20261124T0200Z_20261124T0400Z`, in seconds since the epoch; None if it is not one."""
    try:
        begin, end = (datetime.strptime(part, FORMAT).replace(tzinfo=UTC).timestamp() for part in text.split("_"))
    except ValueError:
        return None
    return (begin, end) if begin < end else None
