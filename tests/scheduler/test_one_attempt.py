"""One attempt after another with plugins that answer at random, held against the rule written down step by step.

The rule is kube-scheduler's: which answer ends the attempt where, what users read then, which plugins the queue asks
about events, and what becomes of the pod's nomination.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest
from hypothesis import settings

from pyscheduler.api import Pod
from pyscheduler.framework import Code, NodeStatuses, PreFilterResult, Status
from pyscheduler.framework.interfaces import (
    EnqueueExtensions,
    FilterPlugin,
    NominatingInfo,
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.testing import FakeCluster, pod_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.framework import CycleState, NodeInfo, Nodes

_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 100000, burst: 100000}
profiles:
- schedulerName: pyscheduler
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: SchedulingGates}, {name: A}, {name: B}, {name: C}, {name: DefaultBinder}]
"""
_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)
_NAMES = "ABC"


@attrs.define(kw_only=True)
class Script:
    """What one plugin answers about one pod; by node where it is asked about nodes."""

    pre_filter: PreFilterResult | Status | None
    filter: dict[str, Status | None]
    post_filter: tuple[PostFilterResult | None, Status]
    pre_score: Status | None
    score: dict[str, int]
    reserve: Status | None
    permit: Status | None
    flight: Status | None
    pre_bind: Status | None


class Actor(
    EnqueueExtensions,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
):
    """Answers as the script says, and waits for no event."""

    scripts: ClassVar[dict[str, Script]] = {}

    @property
    def script(self) -> Script:
        return self.scripts[type(self).__name__]

    def events_to_register(self) -> tuple[()]:
        return ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.script.pre_filter

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self.script.filter[node.name]

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> Any:
        return self.script.post_filter

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return self.script.pre_score

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self.script.score[node.name]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self.script.reserve

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self.script.permit

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.script.flight

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self.script.pre_bind


class A(Actor):
    """Is asked about one node at a time."""


class B(Actor):
    """Is asked about all nodes at once."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        found = NodeStatuses(len(nodes))
        for row, node in enumerate(nodes):
            status = self.script.filter[node.name]
            if status is not None:
                found.fail_row(row, status)
        return found


class C(Actor):
    """The same as A, after B."""


def draw(rng: random.Random, nodes: list[str]) -> dict[str, Script]:
    """Draw what the plugins answer; `mild` plugins are in the way of few pods."""
    mild = rng.random() < 0.6
    return {name: _draw(rng, name, nodes, mild=mild) for name in _NAMES}


def _draw(rng: random.Random, name: str, nodes: list[str], *, mild: bool) -> Script:
    rarely = 0.03 if mild else 0.2
    refusing = rng.choice((0.0, 0.1, 0.3) if mild else (0.3, 0.6, 0.9))
    reasons = (f"{name} no",), (f"{name} no", f"{name} also"), ("common",), ("common", "common"), ()

    def refuse() -> Status:
        return Status(rng.choice(_REJECTIONS), rng.choice(reasons))

    def seldom(*, skips: bool = False) -> Status | None:
        if rng.random() < rarely:
            return rng.choice((refuse(), Status(Code.ERROR, f"{name} is broken")))
        return Status.skip() if skips and rng.random() < 0.5 else None

    pre_filter: PreFilterResult | Status | None = rng.choice((None, Status(Code.SUCCESS), PreFilterResult()))
    if rng.random() < 0.4:
        pre_filter = rng.choice((Status.skip(), PreFilterResult(frozenset(rng.sample(nodes, len(nodes) // 2 + 1)))))
    if rng.random() < rarely:
        pre_filter = rng.choice(
            (
                PreFilterResult(frozenset({"gone"})),
                Status.unschedulable(f"{name} not now"),
                Status.unresolvable(f"{name} never"),
                Status(Code.ERROR, f"{name} is broken"),
            )
        )
    promise = rng.choice(
        (None, NominatingInfo(""), NominatingInfo(rng.choice(nodes)), NominatingInfo("x", override=False))
    )
    code = rng.choice((*_REJECTIONS, Code.UNSCHEDULABLE, Code.SUCCESS, Code.ERROR))
    said = rng.choice(((f"{name} made no room",), (f"{name} one", f"{name} two"), ())) if code else ()
    return Script(
        pre_filter=pre_filter,
        filter={node: refuse() if rng.random() < refusing else None for node in nodes},
        post_filter=(rng.choice((None, PostFilterResult(promise))), Status(code, said)),
        pre_score=Status.skip() if rng.random() < 0.2 else None,
        score={node: rng.choice((0, 50, 99, 100)) if rng.random() > rarely / 4 else 101 for node in nodes},
        reserve=seldom(),
        permit=seldom(),
        flight=seldom(skips=True),
        pre_bind=seldom(),
    )


@attrs.define(kw_only=True)
class Ending:
    """How an attempt ends: on one of `nodes`, or with a message. `nomination` None: as it was."""

    rule: str
    nodes: Iterable[str] = ()
    messages: Iterable[str] = ()
    is_rejected: bool = True
    rejectors: Iterable[str] = ()
    pending: Iterable[str] = ()
    nomination: str | None = ""


def _error(rule: str, *messages: str) -> Ending:
    return Ending(rule=f"{rule} fails", messages=messages, is_rejected=False)


def _one_node(rule: str, name: str, status: Status) -> Ending:
    """Return the ending of a pod that is refused once it has a node."""
    counts = Counter(status.reasons)
    pending = {name} if status.code == Code.PENDING else ()
    return Ending(rule=f"{rule} rejects", messages=(_fit(1, counts),), rejectors={name}, pending=pending)


def _fit(total: int, counts: Mapping[str, int]) -> str:
    said = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available:" + (f" {said}." if said else "")


class Model:
    """The rule, for one pod: what `scripts` lead to on `nodes`, one of which may be `promised`."""

    def __init__(self, scripts: dict[str, Script], nodes: list[str], promised: str) -> None:
        self.scripts = scripts
        self.nodes = nodes
        self.promised = promised
        self.skips: set[str] = set()
        self.narrowed: set[str] = set()
        self.left: set[str] | None = None
        self.rejectors: set[str] = set()
        self.pending: set[str] = set()
        self.refused: dict[str, Status] = {}
        self.rules: set[str] = set()

    def ending(self) -> Ending:
        found = self._pre_filter()
        if isinstance(found, Ending):
            return found
        if isinstance(found, str):
            return self._post_filter(f"0/{len(self.nodes)} nodes are available:" + (f" {found}." if found else ""))
        feasible = self._feasible()
        if not feasible:
            counts = Counter(reason for status in self.refused.values() for reason in status.reasons)
            absent = len(self.nodes) - len(self.refused)
            if absent and self.left is not None:
                self.rules.add("nodes left out")
                counts[f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.named))}]"] += absent
            return self._post_filter(_fit(len(self.nodes), counts))
        best = self._best(feasible) if len(feasible) > 1 else feasible
        return best if isinstance(best, Ending) else self._bind(best)

    def _pre_filter(self) -> Ending | str | None:
        """Return what ends the attempt, or with what message the search for nodes is not begun."""
        rejection: tuple[str, Status] | None = None
        for name, script in self.scripts.items():
            answer = script.pre_filter
            if isinstance(answer, PreFilterResult) and answer.node_names is not None:
                self.narrowed.add(name)
                self.left = set(answer.node_names) if self.left is None else self.left & answer.node_names
                if not self.left:
                    names = f"(s) [{' '.join(sorted(self.narrowed))}] simultaneously"
                    self.rejectors = self.narrowed
                    return f"node(s) didn't satisfy plugin{names if len(self.narrowed) > 1 else f' {name}'}"
            elif isinstance(answer, Status) and answer.is_skip:
                self.skips.add(name)
            elif isinstance(answer, Status) and answer.is_error:
                return _error("PreFilter", f'running PreFilter plugin "{name}": {answer.message}')
            elif isinstance(answer, Status) and answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self.rejectors = {name}
                return answer.message
            elif isinstance(answer, Status) and answer.is_rejected:
                rejection = (name, answer)
        self.rejectors = set(self.narrowed)
        if rejection is None:
            return None
        self.rejectors.add(rejection[0])
        return rejection[1].message

    def _refusal(self, node: str) -> tuple[str, Status] | None:
        for name, script in self.scripts.items():
            status = script.filter[node]
            if status is not None and name not in self.skips:
                return name, status
        return None

    def _feasible(self) -> list[str]:
        self.named = set(self.narrowed)
        if self.promised in self.nodes:
            refusal = self._refusal(self.promised)
            if refusal is None:
                self.rules.add("promise kept")
                return [self.promised]
            self.rules.add("promise broken")
            self.refused[self.promised] = refusal[1]
            self.rejectors.add(refusal[0])
            self.named.add(refusal[0])
        feasible = []
        for node in self.nodes:
            refusal = self._refusal(node)
            if self.left is not None and node not in self.left:
                continue
            if refusal is None:
                feasible.append(node)
                continue
            self.refused[node] = refusal[1]
            self.rejectors.add(refusal[0])
            if refusal[1].code == Code.PENDING:
                self.pending.add(refusal[0])
        return feasible

    def _post_filter(self, message: str) -> Ending:
        kept: PostFilterResult | None = None
        said: list[str] = []
        rule = "PostFilter makes no room"
        for script in self.scripts.values():
            result, status = script.post_filter
            if status.is_success or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE or status.is_error:
                kept, said = None if status.is_error else result, list(status.reasons)
                rule = f"PostFilter says {status.code.label}"
                break
            if result is not None and result.nominating_info is not None and result.nominating_info.override:
                kept = result
            said += status.reasons
        nominating = kept.nominating_info if kept is not None else None
        return Ending(
            rule=rule,
            messages=(f"{message} {', '.join(said)}" if ", ".join(said) else message,),
            rejectors=self.rejectors,
            pending=self.pending,
            nomination=nominating.node_name if nominating is not None and nominating.override else None,
        )

    def _best(self, feasible: list[str]) -> Ending | list[str]:
        totals = dict.fromkeys(feasible, 0)
        wrong = []
        for name, script in self.scripts.items():
            if script.pre_score is not None:
                continue
            for node in feasible:
                totals[node] += script.score[node]
                if script.score[node] > 100:
                    wrong.append(
                        f'applying score defaultWeights on Score plugins: plugin "{name}" returns an invalid score '
                        f"{script.score[node]}, it should in the range of [0, 100] after normalizing"
                    )
        if wrong:
            return _error("Score", *wrong)
        return [node for node, total in totals.items() if total == max(totals.values())]

    def _bind(self, best: list[str]) -> Ending:
        for rule in ("Reserve", "Permit"):
            for name, script in self.scripts.items():
                status = script.reserve if rule == "Reserve" else script.permit
                if status is not None and status.is_error:
                    return _error(rule, f'running {rule} plugin "{name}": {status.message}')
                if status is not None:
                    return _one_node(rule, name, status)
        for name, script in self.scripts.items():
            status = script.flight
            if status is None or status.is_skip:
                continue
            if status.is_error:
                return _error("PreBindPreFlight", f'running PreBindPreFlight "{name}": {status.message}')
            message = f'PreBindPreFlight {name} returned "{status.code.label}", which is unsupported. '
            return _error("PreBindPreFlight", message + "It is supposed to return Success, Skip, or Error status")
        for name, script in self.scripts.items():
            status = script.pre_bind
            if status is None or script.flight is not None:
                continue
            if status.is_error:
                return _error("PreBind", f'running PreBind plugin "{name}": {status.message}')
            return Ending(rule="PreBind rejects", messages=(status.message,))
        return Ending(rule="bound", nodes=best)


async def attempt(seed: int, fired: Counter[str]) -> None:
    """Try a dozen pods on a small cluster, each once; every one must end as the model says."""
    rng = random.Random(seed)
    cluster = FakeCluster(seed=seed)
    nodes = [f"n{number}" for number in range(rng.randrange(1, 6))]
    for node in nodes:
        cluster.add_node(node)
    framework = cluster.framework(config=_CONFIG, enable=[A, B, C], seed=seed)
    for number in range(12):
        name = f"p{number}"
        Actor.scripts = draw(rng, nodes)
        promised = rng.choice(("", "", rng.choice(nodes), "gone"))
        model = Model(Actor.scripts, nodes, promised)
        expected = model.ending()
        fired.update({expected.rule, *model.rules})
        manifest = pod_manifest(name, scheduling_gates=("not yet",))
        cluster.add({**manifest, "status": {"phase": "Pending", "nominatedNodeName": promised or None}}, Pod)
        await framework.settle()
        cluster.patch(Pod, name, {"spec": {"schedulingGates": None}})
        await framework.settle()
        result = framework.result(name)
        where = f"seed {seed} {name}: {expected}"
        if expected.nodes:
            assert result.node in expected.nodes, where
        else:
            assert result.message in expected.messages, where
            notes = [
                event.get("note", "")
                for event in cluster.events("FailedScheduling")
                if event["regarding"]["name"] == name
            ]
            assert notes == [result.message], where
            condition = next(each for each in result.pod.status.conditions if each.type == "PodScheduled")
            assert condition.reason == ("Unschedulable" if expected.is_rejected else "SchedulerError"), where
            queued = framework.scheduler.queue.get(result.pod.uid)
            assert queued is not None, where
            assert queued.pending_plugins == set(expected.pending), where
            assert queued.unschedulable_plugins | queued.pending_plugins == set(expected.rejectors), where
            nomination = promised if expected.nomination is None else expected.nomination
            assert result.pod.status.nominated_node_name == nomination, where
        cluster.delete_pod(name)
        await framework.settle()
    framework.assert_invariants()
    await cluster.close()


@pytest.mark.slow
async def test_every_attempt_ends_as_the_model_says() -> None:
    """Node or message, reason, plugins to ask and nomination, whatever plugins answer at whatever point."""
    fired: Counter[str] = Counter()
    for seed in range(4 * settings.default.max_examples):
        await attempt(seed, fired)
    print(dict(sorted(fired.items())))  # noqa: T201 - how often each rule had its turn
    points = ("PreFilter", "Score", "Reserve", "Permit", "PreBindPreFlight", "PreBind")
    rules = [f"{point} fails" for point in points] + [f"{point} rejects" for point in ("Reserve", "Permit", "PreBind")]
    ends = ("Success", "Error", "UnschedulableAndUnresolvable")
    rules += ["PostFilter makes no room", *(f"PostFilter says {end}" for end in ends)]
    rules += ["bound", "promise kept", "promise broken", "nodes left out"]
    assert not [rule for rule in rules if not fired[rule]]
