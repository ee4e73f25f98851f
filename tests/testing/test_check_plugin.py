"""`check_plugin`: each wrong plugin fails its check, with place and remedy; installed plugins pass."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, FilterPlugin, NodeInfo, SignFragment, SignPlugin, Status
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing import CHECKS, Draft, PluginCheckError, Step, check_plugin
from pyscheduler.testing.checks.check import shrink
from pyscheduler.testing.checks.drawing import draw_history
from pyscheduler.testing.checks.price import price_of
from pyscheduler.testing.checks.subject import Subject
from tests.testing import contract_breakers as wrong
from tests.testing.wrong_plugins import SignsWithDict, SignsWithText, SuccessWithReason, WaitsAtPreFilter

#: The checks that start no process.
IN_PROCESS = [check for check in CHECKS if check != "hash-seed"]
#: These decide nothing about a pod of a profile without batch, or have no extension point.
NOT_ALONE = {"Batch", "BindRequest", "BindRequestReconciler", "GpuSharing"}
INSTALLED = sorted(row.name for row in discover().describe() if row.name not in NOT_ALONE)
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


def failure(plugin: type | str, **keywords: Any) -> PluginCheckError:
    """Return the failure of a plugin."""
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(plugin, **keywords)
    return caught.value


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("plugin", "check", "place"),
    [
        pytest.param(plugin, check, place, id=plugin.__name__)
        for plugin, check, place in [
            (wrong.RaisesWithoutLabel, "raises", "filter"),
            (wrong.RaisesInHint, "raises", "after_deletion"),
            (wrong.RejectsWithoutReason, "statuses", "filter"),
            (wrong.ReturnsBool, "statuses", "filter"),
            (wrong.ScoresWithoutNormalizing, "scores", "score_nodes"),
            (wrong.TwoForms, "forms", "filter_nodes"),
            (wrong.ChangesNodes, "snapshot", "pre_filter"),
            (wrong.WritesArrays, "snapshot", "filter_nodes"),
            (wrong.PrefersRows, "node-order", "filter_nodes"),
            (wrong.SignsNothing, "signature", "sign_pod"),
            (wrong.ReusesTooLong, "cache", "filter_nodes"),
            (wrong.ReusesLabels, "cache", "score_nodes"),
            (wrong.ForgetsUnreserve, "reserve", "unreserve"),
            (wrong.UnreservesTwice, "reserve", "unreserve"),
            (wrong.MissesDeletions, "hints", "events_to_register"),
            (wrong.SkipsDeletions, "hints", "after_deletion"),
            (wrong.KeepsGate, "hints", "events_to_register"),
            (wrong.CountsAttempts, "earlier-pods", "pre_filter"),
            (wrong.RemembersDeletedPods, "earlier-pods", "filter"),
            (wrong.Sleeps, "blocking", "filter"),
            (wrong.SleepsInPreBind, "blocking", "pre_bind"),
        ]
    ],
)
def test_wrong_plugin_fails_its_check(plugin: type, check: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure names check, method, file and remedy, and its shortest history fails again."""
    error = failure(plugin, histories=20, checks=IN_PROCESS)

    assert (error.check, error.plugin, error.remedy) == (check, plugin.__name__, CHECKS[check])
    assert error.place.startswith(f"{plugin.__name__}.{place} (")
    assert "contract_breakers.py:" in error.place
    assert len(error.history) <= 7
    # To look for a shorter one again would take as many runs as to find this one.
    monkeypatch.setattr("pyscheduler.testing.checks.check.shrink", lambda history, fails, most: [*history])
    again = failure(plugin, histories=[error.history], checks=IN_PROCESS)
    assert (again.check, again.place) == (error.check, error.place)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        pytest.param(WaitsAtPreFilter, "PreFilter returned the code Wait", id="PreFilter"),
        pytest.param(SuccessWithReason, "Reserve returned Success with a reason", id="Reserve"),
        pytest.param(SignsWithText, "Sign returned str; expected a list or tuple of SignFragment", id="sign_pod"),
        pytest.param(SignsWithDict, 'value of "example.com/labels" is a dict', id="value of a fragment"),
        pytest.param(wrong.WaitsAtPreBind, "PreBind returned the code Wait", id="PreBind"),
        pytest.param(wrong.SkipsScores, "Score returned the code Skip", id="Score"),
        pytest.param(wrong.RejectsAfterBinding, "PostBind returned Status (Unschedulable)", id="PostBind"),
    ],
)
def test_an_answer_that_the_point_does_not_allow_is_found(plugin: type, said: str) -> None:
    """The check `statuses` names the code and the allowed ones, also of methods that are awaited."""
    history = [Step("add_node", "n1"), Step("add_node", "n2"), Step("add_pod", "p1")]
    error = failure(plugin, histories=[history], checks=["statuses", "signature"])
    assert error.check == "statuses"
    assert said in error.finding.what


class NamesItsPod(FilterPlugin, SignPlugin):
    """Rejects all pods alike, and names each in the text."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable(f'pod "{pod.name}" ({pod.uid}) is not allowed here')

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return ()


class KnowsItsPod(NamesItsPod):
    """Decides by the name, and does not sign it."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return super().filter(state, pod, node) if pod.name == "p1" else None


def test_a_text_may_name_its_pod() -> None:
    """Pods with equal signatures may have texts with their own names; an answer by the name is found all the same."""
    history = [Step("add_node", "n1"), Step("add_pod", "p1"), Step("add_pod", "p2")]
    check_plugin(NamesItsPod, histories=[history], checks=["signature"])
    assert failure(KnowsItsPod, histories=[history], checks=["signature"]).check == "signature"


def test_a_bind_plugin_that_binds_nothing_is_found() -> None:
    """A success without a binding fails the check `bind`."""
    history = [Step("add_node", "n1"), Step("add_pod", "p1")]
    error = failure(wrong.BindsNothing, histories=[history], checks=["bind"], disable=["DefaultBinder"])
    assert (error.check, error.finding.what) == (
        "bind",
        "for pod default/p1, it returned success and did not bind the pod to n1",
    )
    assert error.place.startswith("BindsNothing.bind (")


@pytest.mark.slow
def test_a_pod_that_a_new_node_would_take_is_found() -> None:
    """A node that came after the last attempt has no row among that attempt's statuses."""
    history = [Step("add_node", "n1", labels={"disk": "hdd"}), Step("add_pod", "p1"), Step("add_node", "n2")]

    error = failure(wrong.MissesNodes, histories=[history], checks=["hints"])

    assert "pod default/p1 sleeps among the unschedulable pods, but node n2 takes it now" in str(error)


@pytest.mark.slow
def test_a_wait_that_ends_without_an_event_is_no_missed_event() -> None:
    """A pod whose wait at Permit has timed out would wait again; only an event that lets it go on is missed."""
    history = [Step("add_node", "n1"), Step("add_pod", "p1", labels={"tier": "a"}), Step("advance", 30)]
    check_plugin(wrong.WaitsByLabel, histories=[history], checks=["hints"])
    check_plugin(wrong.WaitsByLabel, histories=6, checks=["hints"])

    changed = Step("patch", Pod, "p1", {"metadata": {"labels": {"tier": None}}})
    error = failure(wrong.WaitsAndMissesLabels, histories=[[*history, changed]], checks=["hints"])
    assert "but node n1 takes it now; the step caused" in error.finding.what
    assert "but the plugin registers NodeAdd" in error.finding.what


def test_every_check_has_a_wrong_plugin() -> None:
    """A new check needs a plugin that fails it."""
    table = test_wrong_plugin_fails_its_check.pytestmark[0].args[1]  # type: ignore[attr-defined]  # pytest adds it
    others = {"hash-seed", "bind", "victims"}  # victims: tests/runtime/test_potential_victims.py

    assert {case.values[1] for case in table} | others == set(CHECKS)


@pytest.mark.slow
def test_answer_that_depends_on_the_hash_seed_fails() -> None:
    """A second process with another PYTHONHASHSEED shows scores that depend on the hash of a text."""
    error = failure(wrong.HashesNames, histories=8)

    assert (error.check, error.place) == ("hash-seed", "HashesNames")
    assert "left over" not in error.finding.what


@pytest.mark.slow
def test_slow_method_fails_by_its_cpu_time() -> None:
    """A call over the limit of CPU time fails, when it is over the limit in a second run, too."""
    history = [Step("add_node", "n1"), Step("add_pod", "p1")]

    error = failure(wrong.Computes, histories=[history], checks=["blocking"], cpu_limit_seconds=0.002)

    assert "ms of CPU time, more than 2 ms" in str(error)


@pytest.mark.slow
def test_code_of_a_failure_is_a_test_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code can be pasted into a test module: it runs the shortest history and fails with the same check."""
    error = failure(wrong.MissesDeletions, histories=20, checks=["hints"])
    pasted: dict[str, Any] = {}
    exec(error.code, pasted)  # the text of a test that this project wrote

    with pytest.raises(PluginCheckError, match='fails the check "hints"'):
        pasted["test_hints"]()


@pytest.mark.slow
def test_correct_plugin_passes() -> None:
    """A plugin that keeps the contract passes, and the result counts the histories."""
    assert check_plugin(wrong.Headroom, histories=5, checks=IN_PROCESS).histories == 5


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", INSTALLED)
def test_installed_plugin_passes(name: str) -> None:
    """The in-tree plugins and those of the distributions keep the contract."""
    check_plugin(name, histories=2, checks=IN_PROCESS, feature_gates=GATES)


@pytest.mark.slow
def test_state_in_the_class_is_not_taken_for_the_hash_seed() -> None:
    """The message names what outlives the plugin object, and not the order of sets."""
    history = [Step("add_node", "n1"), Step("add_node", "n2"), *(Step("add_pod", f"p{each}") for each in range(3))]
    # The second process runs every fourth history: the first, and the last, when this process has run it three times.
    histories = [*[[Step("add_node", "n1")]] * 2, *[history] * 3]
    error = failure(wrong.CountsInClass, histories=histories, checks=["hash-seed"])
    assert "something is left over from earlier runs" in error.finding.what
    assert "values in the class or the module outlive the plugin object" in error.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        pytest.param(wrong.ReadsWallClock, "time.time_ns", id="clock"),
        pytest.param(wrong.DrawsNumbers, "Random.getrandbits", id="random"),
    ],
)
def test_decisions_by_the_clock_of_the_machine_are_named(plugin: type, name: str) -> None:
    """Whichever check sees the unequal answers first, the message names the function and `handle.clock`."""
    error = failure(plugin, histories=20, checks=["earlier-pods"])
    assert f"{plugin.__name__}.filter (" in error.finding.what
    assert f"calls {name}()" in error.finding.what
    assert "self.handle.clock.now()" in error.remedy


@pytest.mark.slow
def test_installed_plugin_does_not_depend_on_the_hash_seed() -> None:
    """A plugin that keeps sets of texts decides alike in a process with another hash seed."""
    assert not check_plugin("PodTopologySpread", histories=8, checks=["hash-seed"]).skipped


def test_class_in_a_function_skips_the_hash_seed() -> None:
    """Another process cannot import a local class, and the result says so."""

    class Local(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None

    result = check_plugin(Local, histories=1)

    assert "is defined in a function" in result.skipped["hash-seed"]


def test_draw_hook_adds_to_the_histories() -> None:
    """Labels, templates, first steps and events of the hook are in the history."""

    def draw(rng: random.Random, draft: Draft) -> None:
        draft.node_labels["rack"] = ["r1", "r2"]
        draft.pods.append({"annotations": {"license": "cad"}})
        draft.setup.append(Step("add_node", "first", allocatable={"cpu": "1"}))
        draft.events.append(Step("delete_node", "first"))

    steps = draw_history(random.Random(0), draw)
    nodes = [step.keywords["labels"] for step in steps if step.verb == "add_node" and "labels" in step.keywords]
    pods = [step for step in steps if step.verb == "add_pod"]

    assert steps[0].text == "add_node first allocatable={'cpu': '1'}"
    assert Step("delete_node", "first") in steps
    assert any("rack" in labels for labels in nodes)
    assert all(pod.keywords["annotations"]["license"] == "cad" for pod in pods)


@pytest.mark.parametrize(
    ("plugin", "has_cache", "advice"),
    [
        pytest.param(wrong.Headroom, True, [], id="reused"),
        pytest.param(
            wrong.RejectsWithoutReason,
            False,
            ["inherit SignPlugin", "define filter_nodes", "set `reuse` on the class"],
            id="one node at a time, without a signature",
        ),
        pytest.param(wrong.SignsNothing, True, ["set `reuse` on the class"], id="signed, never reused"),
    ],
)
def test_price_says_how_to_be_faster(plugin: type, has_cache: bool, advice: list[str]) -> None:
    """The price has the CPU time per pod, whether the profile has the cache, and what would save time."""
    price = price_of(Subject(plugin=plugin), sizes=(10, 20))

    assert price is not None
    assert price.has_cache is has_cache
    assert [part in text for part, text in zip(advice, price.advice, strict=True)] == [True] * len(advice)
    assert list(price.microseconds) == [10, 20]
    assert all(amount > 0 for amount in price.microseconds.values())


def test_plugin_that_judges_no_nodes_has_no_price() -> None:
    """A plugin that neither filters nor scores costs nothing at the choice of a node."""
    assert price_of(Subject(plugin=wrong.SleepsInPreBind), sizes=(10,)) is None


def test_equal_seeds_draw_equal_histories() -> None:
    """A history depends on the seed only."""
    assert draw_history(random.Random(3)) == draw_history(random.Random(3))
    assert draw_history(random.Random(3)) != draw_history(random.Random(4))


def test_shrinking_drops_steps_and_keywords() -> None:
    """What does not matter for the failure is dropped."""
    history = [Step("add_node", f"n{number}", labels={}, taints=[]) for number in range(20)]

    def fails(steps: Any) -> bool:
        return any(step.arguments == ("n13",) and "labels" in step.keywords for step in steps)

    assert shrink(history, fails, most=100) == [Step("add_node", "n13", labels={})]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param({"plugin": "Nonesuch"}, 'no plugin named "Nonesuch"|Nonesuch', id="unknown plugin"),
        pytest.param(
            {"plugin": "NodeName", "checks": ["hint"]}, "hint is no list of checks; the checks are", id="check"
        ),
        pytest.param({"plugin": "NodeName", "checks": "hints"}, "hints is no list of checks", id="text"),
        pytest.param({"plugin": "NodeResourcesFit", "args": {"percent": 3}}, "percent", id="args"),
    ],
)
def test_mistake_in_the_call_is_reported(call: dict[str, Any], message: str) -> None:
    """A wrong call raises one line that names the mistake."""
    with pytest.raises(ConfigError, match=message):
        check_plugin(**call)


async def test_call_in_a_coroutine_is_an_error() -> None:
    """The checks run event loops of their own, and say so."""
    with pytest.raises(RuntimeError, match="call it from a plain function"):
        check_plugin("NodeName")


def test_step_with_unknown_verb_is_an_error() -> None:
    """The error lists the verbs."""
    with pytest.raises(ValueError, match="use one of add, add_node"):
        Step("remove_pod", "p1")
