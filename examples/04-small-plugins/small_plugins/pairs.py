"""Pairs: of two pods with the same label value, the first one waits at Permit until the second one has a node."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import attrs

from pyscheduler import (
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    Handle,
    PermitPlugin,
    Pod,
    ReservePlugin,
    Status,
)
from pyscheduler.framework.plugin_args import Duration

PAIR: Final = "example.com/pair"


@attrs.frozen(kw_only=True)
class PairsArgs:
    """The time for which the first pod of a pair keeps its place; in the file `patience: 2m`."""

    patience_seconds: Duration = 60.0


class Pairs(ReservePlugin, PermitPlugin, EnqueueExtensions):
    """Hold the first pod of a pair, its place reserved, until the second has a place as well."""

    args_type = PairsArgs
    args: PairsArgs

    def __init__(self, args: PairsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.pairs: dict[tuple[str, str], dict[str, Pod]] = defaultdict(dict)
        # The pods that are there already are told at once.
        handle.lister(Pod).add_event_handler(
            on_add=self.keep, on_update=lambda _old, new: self.keep(new), on_delete=self.drop
        )

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if PAIR not in pod.labels or state.trial is not None:
            return None
        partners = self.partners(pod)
        if any(partner.node_name for partner in partners):
            return None
        for partner in partners:
            waiting = self.handle.get_waiting_pod(partner.uid)
            if waiting is not None:
                waiting.allow(self.name)
                return None
        # The partner may be back in the queue after its own timeout.
        self.handle.activate(partners)
        return Status.wait("waiting for the other pod of the pair", timeout=self.args.patience_seconds)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.trial is not None:
            return
        # Called when the pod gives up its place, for whatever reason; its partner need not wait any longer.
        for partner in self.partners(pod):
            self.handle.reject_waiting_pod(partner.uid, plugin=self.name, reason=f"pod {pod.key} gave up its place")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Nothing that happens in the cluster helps a pod without partner; the partner activates it when it comes.
        return ()

    def partners(self, pod: Pod) -> list[Pod]:
        """Return the other pods of the pair."""
        members = self.pairs.get((pod.namespace, pod.labels.get(PAIR, "")), {})
        return [other for uid, other in members.items() if uid != pod.uid]

    def keep(self, pod: Pod) -> None:
        """Take in a new pod, or a new version of one."""
        if PAIR in pod.labels:
            self.pairs[pod.namespace, pod.labels[PAIR]][pod.uid] = pod

    def drop(self, pod: Pod) -> None:
        """Forget a pod that is gone, and its pair with the last of them."""
        key = (pod.namespace, pod.labels.get(PAIR, ""))
        self.pairs.get(key, {}).pop(pod.uid, None)
        if not self.pairs.get(key):
            self.pairs.pop(key, None)
