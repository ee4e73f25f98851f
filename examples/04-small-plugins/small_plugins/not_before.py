"""NotBefore: hold a pod until the time in its annotation, in seconds since 1970. No event tells that it has come."""

from collections.abc import Sequence

from pyscheduler import (
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    Nodes,
    Pod,
    PreFilterPlugin,
    Status,
)


class NotBefore(PreFilterPlugin, EnqueueExtensions):
    """Reject a pod, and say when it is worth another attempt."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        opens_at = float(pod.annotations.get("example.com/not-before", "0"))
        missing = opens_at - self.handle.clock.wall()
        return Status.unresolvable("it is too early for this pod", retry_after=missing) if missing > 0 else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
