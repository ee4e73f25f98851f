"""Choose nodes and victims for the actions `preempt` and `reclaim` of kube-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch.contract import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Task
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["enough_victims", "rich_nodes"]


def rich_nodes(session: KubeBatchSession, task: Task, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[N]: the nodes whose candidates (bool[n] of the residents) together hold what the task requests."""
    sums = session.books.residents.sums(candidates, len(session.nodes))
    is_there = np.zeros(len(session.nodes), dtype=np.bool_)
    is_there[session.books.residents.node[candidates]] = True
    return is_there & session.scale.fits(task.request, sums)


def enough_victims(
    session: KubeBatchSession,
    claim: Claim,
    node: int,
    candidates: NDArray[np.bool_],
    victims: Callable[[Claim, Tasks], NDArray[np.bool_]],
) -> list[Task]:
    """Return the victims of a node if they alone hold what the task requests; idle room does not count."""
    found = session.books.residents.on(node, candidates)
    if not found or claim.task is None:
        return []
    mask = victims(claim, Tasks.of(found))
    chosen = [victim for victim, is_victim in zip(found, mask.tolist(), strict=True) if is_victim]
    total = np.sum([victim.request for victim in chosen], axis=0) if chosen else np.zeros_like(claim.task.request)
    if chosen and session.scale.fits(claim.task.request, total):
        return chosen
    session.victims.note_plan(
        "preempt" if victims == session.victims.preemptable else "reclaim", claim, node, chosen, found
    )
    return []
