"""NotBefore: hold a pod until the time in its annotation. The plugin tells the scheduler when to retry the pod."""

from collections.abc import Sequence

from pyscheduler import (
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    Handle,
    Nodes,
    Pod,
    PreFilterPlugin,
    Status,
)


class NotBefore(PreFilterPlugin, EnqueueExtensions):
    """Reject a pod, and say when it is worth another attempt."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.held = handle.metrics.counter(
            "not_before_held_total", "Attempts that came too early", labels=["namespace"]
        )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        opens_at = float(pod.annotations.get("example.com/not-before", "0"))
        missing = opens_at - self.handle.clock.wall()
        if missing <= 0:
            return None
        self.held.add(namespace=pod.namespace)
        return Status.unresolvable("it is too early for this pod", retry_after=missing)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
