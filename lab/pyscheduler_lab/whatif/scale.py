"""Find the smallest number of new nodes with which every pending pod gets a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_lab.whatif.answer import Answer, what_if

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler_lab.whatif.answer import Pending
    from pyscheduler_lab.whatif.change import Addition, Change
    from pyscheduler_lab.whatif.dump import Dump
    from pyscheduler_lab.whatif.run import Runner

__all__ = ["Scale", "scale_to_fit"]


@attrs.frozen(kw_only=True)
class Scale:
    """The smallest number of nodes, and the answer with so many nodes."""

    nodes: int
    answer: Answer
    #: By name, the pods that wait although there is a new node for each pending pod.
    never_fit: Mapping[str, Pending]
    #: Number of pods that wait and could run, by number of nodes that was tried.
    tried: Mapping[int, int]


def scale_to_fit(
    dump: Dump,
    change: Change,
    shape: Addition,
    runner: Runner,
    *,
    progress: Callable[[int], object] = lambda _nodes: None,
) -> Scale:
    """Return the smallest number of nodes of a shape; `change` is made, too. Raises what `what_if` raises.

    `progress` is called with each number of nodes before it is tried.
    """
    answers: dict[int, Answer] = {}

    def waiting(nodes: int) -> Mapping[str, Pending]:
        if nodes not in answers:
            progress(nodes)
            answers[nodes] = what_if(dump, change.with_more(attrs.evolve(shape, count=nodes)), runner)
        return answers[nodes].waiting

    # Also the pods that get a node without new nodes: with new nodes, they may take their room.
    most = len(waiting(0)) + len(answers[0].placed)
    never = waiting(most)
    tried: dict[int, int] = {}

    def fits(nodes: int) -> bool:
        tried[nodes] = len(waiting(nodes).keys() - never.keys())
        return not tried[nodes]

    low, high = -1, 0
    while high < most and not fits(high):
        low, high = high, min(max(2 * high, 1), most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return Scale(nodes=high, answer=answers[high], never_fit=never, tried=tried)
