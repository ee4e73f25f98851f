"""Compute which pods move, wait or are gone for good after a change of the cluster, such as a removed node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pyscheduler_lab.whatif.change import Change, apply_change
from pyscheduler_lab.whatif.dump import is_terminal, name_of

if TYPE_CHECKING:
    from pyscheduler_lab.whatif.dump import Dump
    from pyscheduler_lab.whatif.run import Runner

__all__ = ["Answer", "Lost", "Moved", "Pending", "Placed", "answer_as_json", "what_if"]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was evicted and has a node again, which may be the same one."""

    pod: str
    from_node: str = msgspec.field(name="from")
    to: str
    why: str


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was pending in the dump, and has a node now."""

    pod: str
    to: str


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A pod without a node; `reason` and `message` say why it waits.

    `from` is its node in the dump, `why` is the reason of its eviction; both are "" for a pod that was pending.
    """

    pod: str
    from_node: str = msgspec.field(name="from")
    why: str
    reason: str
    message: str


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was evicted, and that no controller creates again; or one that its node rejected."""

    pod: str
    from_node: str = msgspec.field(name="from")
    why: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a change on the pods of a cluster; lists are sorted by pod.

    Pods that have ended do not count, nor do pods that a plugin creates to hold resources for others.
    """

    nodes_before: int
    nodes_after: int
    #: Pods that have a node.
    placed_before: int
    placed_after: int
    moved: list[Moved]
    placed: list[Placed]
    #: Pods that have lost their node.
    pending: list[Pending]
    lost: list[Lost]
    #: Pods that were pending in the dump, and still are.
    still_pending: list[Pending]
    #: Pods of DaemonSets and static pods that ended with their node.
    ended: list[str]
    #: Pods that were being deleted in the dump; they are left out.
    leaving: int
    #: Virtual seconds until the last change.
    seconds: float
    #: False if pods were still evicting each other after a day of virtual time.
    is_at_rest: bool

    @property
    def does_harm(self) -> bool:
        """Return True if a pod lost its node and got no other."""
        return bool(self.pending or self.lost)

    @property
    def waiting(self) -> dict[str, Pending]:
        """Return all pods without a node by name."""
        return {one.pod: one for one in (*self.pending, *self.still_pending)}


def what_if(dump: Dump, change: Change, runner: Runner) -> Answer:
    """Return the effect of a change; nothing is written to any cluster.

    Raises `ConfigError` for an unknown node, a profile that cannot be built, and an object that cannot be read.
    """
    changed = apply_change(dump, change)
    found = runner.place(changed.objects)
    before = {
        name_of(pod): (pod.get("spec") or {}).get("nodeName") or ""
        for pod in dump.of_kind("Pod")
        if not (is_terminal(pod) or pod["metadata"].get("deletionTimestamp") or found.holds_for_others(pod))
    }
    moved: list[Moved] = []
    placed: list[Placed] = []
    pending: list[Pending] = []
    lost: list[Lost] = []
    still: list[Pending] = []
    for pod, node in sorted(before.items()):
        now = found.nodes.get(pod, "")
        why = found.evicted.get(pod) or changed.evicted.get(pod) or changed.lost.get(pod, "")
        if now and not node:
            placed.append(Placed(pod=pod, to=now))
        elif now:
            if now != node or why:
                moved.append(Moved(pod=pod, from_node=node, to=now, why=why))
        elif (waiting := found.waiting.get(pod)) is not None:
            one = Pending(pod=pod, from_node=node, why=why, reason=waiting.reason, message=waiting.message)
            (pending if node else still).append(one)
        elif pod not in changed.ended:
            lost.append(Lost(pod=pod, from_node=node, why=found.ended.get(pod) or f"{why}, and it has no controller"))
    return Answer(
        nodes_before=sum(1 for _ in dump.of_kind("Node")),
        nodes_after=sum(one["kind"] == "Node" for one in changed.objects),
        placed_before=sum(map(bool, before.values())),
        placed_after=sum(pod in before for pod in found.nodes),
        moved=moved,
        placed=placed,
        pending=pending,
        lost=lost,
        still_pending=still,
        ended=sorted(changed.ended),
        leaving=changed.leaving,
        seconds=round(found.seconds, 3),
        is_at_rest=found.is_at_rest,
    )


def answer_as_json(answer: Answer, **more: object) -> bytes:
    """Return an answer as one JSON object, after the fields `more`."""
    return msgspec.json.format(msgspec.json.encode({**more, **msgspec.to_builtins(answer)}), indent=1)
