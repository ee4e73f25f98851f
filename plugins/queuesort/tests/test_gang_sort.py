"""GangSort, tested from outside: through its keys, and through the events that it listens to."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import PluginRegistry, PodInfo, QueuedPodInfo
from pyscheduler.testing import make_pod
from pyscheduler_queuesort.plugin import GROUP_LABELS, GangSort, group_of

LABEL = GROUP_LABELS[0]


def queued(
    name: str, at: float, *, group: str = "", priority: int = 0, namespace: str = "default", label: str = LABEL
) -> QueuedPodInfo:
    """Return a pod that entered the queue at a time."""
    labels = {label: group} if group else {}
    pod = make_pod(name, namespace=namespace, labels=labels, priority=priority)
    return QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=at)


def order(plugin: GangSort, *infos: QueuedPodInfo) -> list[str]:
    """Sort pods in the order in which the queue sees them."""
    return [info.pod.name for info in sorted(infos, key=plugin.sort_key)]


class Pods:
    """A handle and a lister in one, for a plugin that asks for pods and listens."""

    def __init__(self) -> None:
        self.updated: Callable[[Pod, Pod], None] = self.nobody
        self.deleted: Callable[[Pod], None] = self.nobody

    def nobody(self, *_: object) -> None:
        """Stand for a listener that has not come yet."""
        raise AssertionError("nobody listens")

    def lister(self, kind: type) -> Pods:
        """Answer for pods."""
        assert kind is Pod
        return self

    def add_event_handler(self, *, on_update: Callable[[Pod, Pod], None], on_delete: Callable[[Pod], None]) -> None:
        """Keep the listeners."""
        self.updated, self.deleted = on_update, on_delete


@pytest.fixture
def pods() -> Pods:
    """Give the handle of a plugin that is made with it."""
    return Pods()


@pytest.fixture
def plugin(pods: Pods) -> GangSort:
    """Give a plugin as a profile would make it."""
    return GangSort(None, pods)


def test_priority_comes_first(plugin: GangSort) -> None:
    """A group does not pull a pod past one of higher priority."""
    infos = queued("low", 1, group="g"), queued("high", 9, priority=5), queued("mate", 2, group="g", priority=3)
    assert order(plugin, *infos) == ["high", "mate", "low"]


def test_pods_without_a_group_keep_the_default_order(plugin: GangSort) -> None:
    """Among plain pods the order is that of priority and time in the queue."""
    infos = queued("b", 2), queued("a", 1), queued("c", 3), queued("first", 9, priority=1)
    assert order(plugin, *infos) == ["first", "a", "b", "c"]


def test_members_of_a_group_stay_together(plugin: GangSort) -> None:
    """Groups that arrive interleaved pop one after the other, with plain pods between where their time is."""
    infos = [
        queued("red-1", 1, group="red"),
        queued("blue-1", 2, group="blue"),
        queued("plain", 3),
        queued("red-2", 4, group="red"),
        queued("blue-2", 5, group="blue"),
    ]
    assert order(plugin, *infos) == ["red-1", "red-2", "blue-1", "blue-2", "plain"]


def test_groups_of_one_moment_do_not_mix(plugin: GangSort) -> None:
    """At equal times the group's name decides before the pod's own time."""
    infos = [queued(f"{group}-{at}", at, group=group) for at in (1.0, 1.5) for group in ("b", "a")]
    plugin.sort_key(queued("a-0", 1.0, group="a"))
    plugin.sort_key(queued("b-0", 1.0, group="b"))
    assert order(plugin, *infos) == ["a-1.0", "a-1.5", "b-1.0", "b-1.5"]


def test_a_group_belongs_to_its_namespace(plugin: GangSort) -> None:
    """The same name in two namespaces is two groups."""
    infos = [
        queued("one-1", 1, group="g", namespace="one"),
        queued("two-1", 2, group="g", namespace="two"),
        queued("one-2", 3, group="g", namespace="one"),
    ]
    assert order(plugin, *infos) == ["one-1", "one-2", "two-1"]


def test_the_time_of_a_group_stands(plugin: GangSort) -> None:
    """A key is the same whenever it is made: members that return or come late share the first one's time."""
    first = plugin.sort_key(queued("a", 5, group="g"))
    returned = plugin.sort_key(queued("a", 80, group="g"))
    late = plugin.sort_key(queued("b", 3, group="g"))
    assert first[:3] == returned[:3] == late[:3] == (0, 5, "default/g")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda pods, pod: pods.deleted(pod), id="deleted"),
        pytest.param(lambda pods, pod: pods.updated(pod, pod.with_node_name("n1")), id="bound"),
        pytest.param(lambda pods, pod: pods.updated(pod, make_pod(pod.name, status={"phase": "Failed"})), id="ended"),
    ],
)
def test_a_group_is_forgotten_with_its_last_unbound_member(
    pods: Pods, plugin: GangSort, end: Callable[[Pods, Pod], None]
) -> None:
    """While one member is unbound the time stands; after that the name is free for a new group."""
    one, two = queued("one", 1, group="g"), queued("two", 2, group="g")
    plugin.sort_key(one)
    plugin.sort_key(two)
    end(pods, one.pod)
    assert plugin.sort_key(two)[1] == 1
    end(pods, two.pod)
    assert plugin.sort_key(queued("three", 9, group="g"))[1] == 9


def test_other_changes_of_a_member_change_nothing(pods: Pods, plugin: GangSort) -> None:
    """An update that neither binds nor ends a pod leaves its group alone."""
    info = queued("one", 1, group="g")
    plugin.sort_key(info)
    pods.updated(info.pod, info.pod)
    assert plugin.sort_key(queued("two", 9, group="g"))[1] == 1


def test_a_pod_that_changes_its_group_leaves_the_old_one(plugin: GangSort) -> None:
    """A relabelled pod counts where its label says, and does not keep the old group alive."""
    plugin.sort_key(queued("one", 1, group="old"))
    assert plugin.sort_key(queued("one", 2, group="new"))[1:3] == (2, "default/new")
    assert plugin.sort_key(queued("two", 3, group="old"))[1] == 3
    plugin.sort_key(queued("one", 4))
    assert plugin.sort_key(queued("three", 5, group="new"))[1] == 5


def test_short_lived_groups_leave_nothing_behind(pods: Pods, plugin: GangSort) -> None:
    """What is remembered follows the unbound pods, not the pods that ever were."""
    info = queued("one", 1, group="g")
    for number in range(1000):
        pod = make_pod("one", uid=str(number), labels={LABEL: f"g{number}"})
        plugin.sort_key(QueuedPodInfo(pod_info=info.pod_info.with_pod(pod), enqueued_at=1))
        pods.deleted(pod)
    assert len(plugin._groups) == 0


@pytest.mark.parametrize("label", GROUP_LABELS)
def test_every_label_names_a_group(plugin: GangSort, label: str) -> None:
    """Each of the labels makes a group of its own."""
    assert group_of(queued("p", 1, group="g", label=label).pod) == "default/g"
    assert plugin.sort_key(queued("p", 1, group="g", label=label)) == (0, 1, "default/g", 1)


def test_the_first_label_counts() -> None:
    """A pod that carries several labels belongs to one group; an empty label names none."""
    labels = {GROUP_LABELS[0]: "", GROUP_LABELS[1]: "one", GROUP_LABELS[2]: "two"}
    assert group_of(make_pod("p", labels=labels)) == "default/one"
    assert group_of(make_pod("p")) == ""


def test_the_plugin_is_found_through_its_entry_point() -> None:
    """The installed distribution registers GangSort, as a path that leads to the class."""
    (found,) = entry_points(group="pyscheduler", name="queuesort")
    offered: dict[str, object] = {}

    class Registry:
        def add(self, name: str, plugin: object) -> None:
            offered[name] = plugin

    registry: PluginRegistry = Registry()
    found.load().pyscheduler_register(registry)
    assert offered == {"GangSort": "pyscheduler_queuesort.plugin:GangSort"}
    assert GangSort.name == "GangSort"
