"""Mistakes in tests of plugins: the error says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyscheduler import CycleState, Pod, PostBindPlugin
from pyscheduler.testing import FakeCluster, Fault, make_node, make_pod, pod_manifest

POD = make_pod("p")


class Own(PostBindPlugin):
    """A plugin."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing."""


MISTAKES: list[tuple[str, Callable[[FakeCluster], Any], str]] = [
    ("a name for a list", lambda c: c.framework(enable="Gang"), 'enable= takes a list; write enable=["Gang"]'),
    ("a class for a list", lambda c: c.framework(enable=Own), "enable= takes a list; write enable=[Own]"),
    ("an object", lambda c: c.framework(enable=[Own()]), "the framework makes the plugin; write enable=[Own]"),
    (
        "no plugin",
        lambda c: c.framework(enable=[dict]),
        "not class dict, which does not inherit from pyscheduler.Plugin",
    ),
    (
        "a number",
        lambda c: c.framework(enable=[3]),
        "enable= takes plugin classes, or names of installed plugins, not 3",
    ),
    (
        "an unknown name in enable",
        lambda c: c.framework(enable=["Gnag", "NoSuch"]),
        'plugin "Gnag" does not exist, did you mean "Gang"?',
    ),
    (
        "an unknown name in disable",
        lambda c: c.framework(disable=["NodeResourceFit"]),
        'disable=: plugin "NodeResourceFit" does not exist, did you mean "NodeResourcesFit"?',
    ),
    ("a name in disable", lambda c: c.framework(disable="Gang"), 'disable= takes a list; write disable=["Gang"]'),
    ("a class in disable", lambda c: c.framework(disable=[Own]), 'disable= takes names; write disable=["Own"]'),
    ("a mapping as config", lambda c: c.framework(config={}), "not dict; write yaml.safe_dump(...)"),
    ("a path as config", lambda c: c.framework(config=Path("x")), "write path.read_text()"),
    (
        "config and disable",
        lambda c: c.framework(config="x", disable=["*"]),
        "disable= cannot be combined with config=, which has the profiles; write it into the text",
    ),
    (
        "args of a plugin that is not there",
        lambda c: c.framework(args={"Gnag": {}}),
        'args are given for plugin "Gnag", which no installed distribution offers',
    ),
    ("an object to delete", lambda c: c.delete_pod(POD), "takes a name, not a Pod; write delete_pod(....name"),
    ("a node to delete", lambda c: c.delete_node(make_node("n")), "not a Node; write delete_node(....name)"),
    ("a pod to read", lambda c: c.pod(POD), "pod() takes a name, not a Pod"),
    ("a number to delete", lambda c: c.delete_pod(7), "delete_pod() takes a name, not int"),
    ("a name to filter", lambda c: c.framework().run_filter("p"), 'takes a pod, not str; write make_pod("p")'),
    (
        "nothing to score",
        lambda c: c.framework().run_score(None),
        "takes a pod, not NoneType; write make_pod(name, ...)",
    ),
    ("a name to sort", lambda c: c.framework().sort_key("p"), 'sort_key() takes a pod, not str; write make_pod("p")'),
    (
        "a kind's name to patch",
        lambda c: c.patch("Pod", "p", {}),
        "patch() takes the class of a kind, not 'Pod'; write",
    ),
    ("no kind", lambda c: c.objects(dict), "or a class of your own that inherits KubeObject"),
    ("a pod that is not there", lambda c: c.framework().result("p"), "there is no pod default/p; create it with"),
    (
        "a plugin that is not enabled",
        lambda c: c.framework().plugin("Gang"),
        "the profile does not enable 'Gang'; write",
    ),
    (
        "a page that nobody serves",
        lambda c: c.framework().get_route("/x"),
        "no plugin serves /x; call handle.add_route(",
    ),
    ("no fault", lambda c: c.server.faults.add("403"), "faults.add() takes a Fault, not str; write Fault("),
    (
        "a method in lower case",
        lambda c: c.server.faults.add(Fault(method="patch")),
        'no request has the method patch; write method="PATCH"',
    ),
    (
        "an unknown loss",
        lambda c: c.server.faults.add(Fault(lose="response")),  # type: ignore[arg-type] # the mistake
        'lose="response" breaks nothing; write lose="request" or lose="answer"',
    ),
    ("keywords of a pod", lambda c: c.add_pod(POD, priority=3), "add_pod() takes keywords with a name only"),
    (
        "a bad quantity",
        lambda _: make_pod("p", requests={"memory": "1 GB"}),
        """requests["memory"]: quantity '1 GB' is malformed; write it like 500m, 2, 1.5Gi or 1e3""",
    ),
    (
        "a bad quantity in a manifest",
        lambda _: pod_manifest("p", requests={"cpu": None}),
        'requests["cpu"]: None is no quantity',
    ),
    ("a text for amounts", lambda _: make_pod("p", requests="1"), 'requests= takes a mapping such as {"cpu": "500m"}'),
    (
        "a bad quantity of a node",
        lambda c: c.add_node("n", allocatable={"cpu": "4 cores"}),
        """allocatable["cpu"]: quantity '4 cores' is malformed""",
    ),
]


@pytest.mark.parametrize(("call", "said"), [pytest.param(call, said, id=name) for name, call, said in MISTAKES])
def test_a_mistake_says_what_to_write(call: Callable[[FakeCluster], Any], said: str) -> None:
    """One line names the argument and the remedy."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each has its text
        call(FakeCluster())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) or "NoSuch" in str(caught.value)


async def test_keywords_beside_a_pod_are_an_error(pyscheduler_cluster: FakeCluster) -> None:
    """They would have no effect."""
    with pytest.raises(TypeError, match=r"schedule\(\) takes keywords with a name only; pass them to make_pod"):
        await pyscheduler_cluster.framework().schedule(POD, priority=3)


def test_numbers_are_quantities() -> None:
    """As in a manifest, `2` and `0.5` need no quotes."""
    assert make_pod("p", requests={"cpu": 2, "memory": 0.5}).spec.containers[0].resources is not None  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("gates", "written"),
    [
        pytest.param({"OpportunisticBatching": True}, "OpportunisticBatching=true", id="mapping"),
        pytest.param(["OpportunisticBatching"], "OpportunisticBatching=true", id="list"),
    ],
)
async def test_feature_gates_are_a_text(gates: Any, written: str, pyscheduler_cluster: FakeCluster) -> None:
    """Anything else is an error with the text to write."""
    with pytest.raises(TypeError, match=f'feature_gates= takes a text .*; write "{written}"'):
        pyscheduler_cluster.framework(feature_gates=gates)
