"""Nominations: from the pod's status or from the scheduler, and what an update does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import NominatingInfo
from pyscheduler.queue.nominator import Nominator

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit


@pytest.mark.parametrize(
    ("in_status", "nominating", "node"),
    [
        pytest.param("n1", None, "n1", id="by its status"),
        pytest.param("", None, "", id="its status names none"),
        pytest.param("n1", NominatingInfo("n2"), "n2", id="the scheduler overrides the status"),
        pytest.param("n1", NominatingInfo("n2", override=False), "n1", id="the scheduler leaves it alone"),
        pytest.param("n1", NominatingInfo(""), "", id="the scheduler clears it"),
    ],
)
def test_an_overriding_nomination_wins_over_the_status(
    kit: Kit, in_status: str, nominating: NominatingInfo | None, node: str
) -> None:
    """An overriding nomination wins, also the empty one; else the status counts."""
    nominator = Nominator()
    info = kit.info(kit.pod(nominated=in_status))
    nominator.add(info, nominating)
    nominator.check_invariants()
    assert nominator.node_of("uid-p") == node
    assert bool(nominator.nodes) is bool(node)
    assert list(nominator.nodes) == ([node] if node else [])
    assert nominator.pods_on(node) == ((info,) if node else ())


def test_a_new_nomination_replaces_the_old_one(kit: Kit) -> None:
    """A pod is nominated to one node at a time, and a node without nominations is forgotten."""
    nominator = Nominator()
    info = kit.info(kit.pod(nominated="n1"))
    nominator.add(info)
    nominator.add(info, NominatingInfo("n2"))
    assert nominator.pods_on("n1") == ()
    assert nominator.pods_on("n2") == (info,)
    nominator.add(info, NominatingInfo(""))
    assert not nominator.nodes
    nominator.check_invariants()


def test_several_pods_on_one_node(kit: Kit) -> None:
    """They are listed in the order of their nomination."""
    nominator = Nominator()
    first, second = (kit.info(kit.pod(name, nominated="n1")) for name in ("a", "b"))
    nominator.add(first)
    nominator.add(second)
    assert nominator.pods_on("n1") == (first, second)
    nominator.delete(first.pod)
    nominator.delete(first.pod)
    assert nominator.pods_on("n1") == (second,)


@pytest.mark.parametrize(
    ("known", "old", "new", "node"),
    [
        pytest.param("n2", "", "", "n2", id="the API server has not heard of it yet: kept"),
        pytest.param("n2", "", "n1", "n1", id="added by somebody: believed"),
        pytest.param("n1", "n1", "n3", "n3", id="changed by somebody: believed"),
        pytest.param("n1", "n1", "", "", id="removed by somebody: believed"),
        pytest.param("n2", "n1", "n1", "n1", id="unchanged in the status: the status counts"),
        pytest.param("", "", "", "", id="never nominated"),
    ],
)
def test_an_update_carries_the_nomination_over(kit: Kit, known: str, old: str, new: str, node: str) -> None:
    """What the status says after a change counts; a status that has always been silent does not."""
    nominator = Nominator()
    before = kit.info(kit.pod(nominated=old))
    nominator.add(before, NominatingInfo(known))
    after = kit.info(kit.pod(nominated=new))
    nominator.update(before.pod, after)
    nominator.check_invariants()
    assert nominator.node_of("uid-p") == node
    assert nominator.pods_on(node) == ((after,) if node else ())


def test_a_pod_that_is_gone_or_bound_is_not_nominated(kit: Kit) -> None:
    """The newest version of the pod decides, where the nominator can look it up."""
    newest: dict[str, Pod] = {}
    nominator = Nominator(find_pod=lambda pod: newest.get(pod.uid))
    info = kit.info(kit.pod(nominated="n1"))
    nominator.add(info)
    assert not nominator.nodes
    newest["uid-p"] = info.pod.with_node_name("n9")
    nominator.add(info)
    assert not nominator.nodes
    newest["uid-p"] = info.pod
    nominator.add(info)
    assert nominator.node_of("uid-p") == "n1"
    del newest["uid-p"]
    nominator.update(info.pod, info)
    assert not nominator.nodes
