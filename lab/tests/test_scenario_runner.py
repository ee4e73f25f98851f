"""Running scenarios: every kind of step, the checks of every scenario, and the messages of failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import AFTER_FAILURE, Handle, PermitPlugin, ReservePlugin, Status
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.podgroup.dialects import DIALECTS, resolve
from pyscheduler.podgroup.wire import SIGS_PODGROUPS
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.registry import Registry
from pyscheduler_lab.simulation.scenario import load_scenarios, read_scenarios
from pyscheduler_lab.simulation.scenario_report import Result, as_json
from pyscheduler_lab.simulation.scenario_runner import run_scenario

CARRIED = Path(__file__).parent / "gang-scenarios.yaml"
HEAD = """
schema: 1
profiles:
  plain: {}
  gang: {plugins: [coscheduling]}
  all-but-one: {plugins: [coscheduling], args: {coscheduling: {less: 1}}}
scenarios:
"""


class Counting(ReservePlugin, PermitPlugin):
    """Stands in for Coscheduling: holds a pod for a minute until as many of its group have a place as are asked for."""

    name = "Coscheduling"
    watches = (SIGS_PODGROUPS,)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        assert handle is not None
        self.less = args.get("less", 0) if isinstance(args, dict) else 0
        self.waiting = handle.index_waiting_pods(self.group_of)

    @staticmethod
    def group_of(pod: Pod) -> str | None:
        found = resolve(pod, DIALECTS)
        return None if found is None else found[0].name

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        group = self.group_of(pod)
        state.read(AFTER_FAILURE).ignored_by = lambda other: self.group_of(other) == group
        for held in self.waiting.of(group):
            held.reject(self.name, "rejection in Unreserve")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group = self.group_of(pod)
        if group is None:
            return None
        described = self.handle.lister(SIGS_PODGROUPS.type).get(group, pod.namespace)
        if described is None:
            return Status.unschedulable("PodGroup not found")
        bound = sum(1 for other in self.handle.lister(Pod) if other.node_name and self.group_of(other) == group)
        if bound + self.waiting.count(group) + 1 >= described.spec.min_member - self.less:
            for held in self.waiting.of(group):
                held.allow(self.name)
            return None
        return Status.wait(timeout=60)


@pytest.fixture(name="run")
def _run() -> Callable[..., Result]:
    """Run one scenario, given without its head, on a scheduler with the stand-in."""

    def run(text: str, *, seed: int = 0) -> Result:
        profiles, (scenario,) = read_scenarios(HEAD + text)
        return run_scenario(scenario, profiles[scenario.profile], seed=seed, registry=with_stand_in())

    return run


def with_stand_in() -> Registry:
    """Return the plugins that every installation has, and the stand-in."""
    registry = bare()
    registry.add("Coscheduling", Counting)
    return registry


def bare() -> Registry:
    """Return the plugins that every installation has."""
    return discover(blocked=["coscheduling", "gang", "kube-pyscheduler-coscheduling", "kube-pyscheduler-gang"])


@pytest.mark.slow
def test_scenarios_without_group_plugins_pass() -> None:
    """The control passes; what needs a plugin that is not there fails with one line that names it."""
    profiles, scenarios = load_scenarios(CARRIED)
    by_profile: dict[str, int] = {}
    for scenario in scenarios:
        if scenario.profile == "intree":
            continue
        result = run_scenario(scenario, profiles[scenario.profile], registry=bare())
        by_profile[scenario.profile] = by_profile.get(scenario.profile, 0) + 1
        if scenario.profile == "plain":
            assert result.failures == []
            continue
        plugin = "Gang" if scenario.profile.startswith("gang") else "Coscheduling"
        assert result.failures == [f'profile {scenario.profile}: plugin "{plugin}" is not installed']
        assert not result.passed
    assert by_profile.keys() == {"plain", "ming", "cos", "gang", "gang-dl"}


def test_pod_steps(run: Callable[..., Result]) -> None:
    """Every step for pods without groups; pods are counted by set, and the set of a prefix is the prefix."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, count: 2, cpu: 2, gpu: 1, pods: 3}]
  steps:
  - create_pods: {prefix: w, count: 5}
  - expect: {bound: {w: 4}, pending: {w: 1}, waiting: {w: 0}, bound_total: 4, reason_all: {w: [Insufficient cpu]}}
  - complete_pods: {pods: [w-0]}
  - expect: {bound: {w: 4}, pending: {w: 0}, within: 2}
  - delete_pods: {of: w, state: bound, count: 3}
  - expect: {bound: {w: 1}, bound_total: 1}
  - create_pods: {prefix: g, gpu: 1, count: 3, ns: other, node_selector: {kubernetes.io/hostname: n-1}}
  - expect: {bound: {other/g: 1}, pending: {other/g: 2}, reason_any: {other/g: [Insufficient nvidia.com/gpu]}}
  - create_pods: {prefix: gated, gated: true}
  - expect: {pending: {gated: 1}}
  - update_pods: {pods: [gated-0], ungate: true, annotations: {a: 1}}
  - expect: {bound: {gated: 1}, annotation_all: {gated: {a: "1"}}, annotation_none: {gated: [b]}}
  - update_pods: {pods: [gated-0], annotations: {a: null}}
  - expect: {annotation_none: {gated: [a]}}
  - create_pods: {prefix: old, node: n-0, phase: Succeeded}
  - create_pods: {prefix: here, node: n-0, cpu: 0}
  - expect: {bound: {here: 1}, bound_total: 4, no_events: {here: [Insufficient], gated: [nothing]}}
""")
    assert result.failures == []
    assert [step.step for step in result.steps] == list(range(17))
    first, last = result.steps[0], result.steps[-1]
    assert first.pods["default/w-0"].state == "bound"
    assert last.pods["default/w-0"].state == "gone"
    assert (last.pods["default/w-0"].set, last.pods["default/w-0"].node) == (None, None)
    assert last.pods["default/old-0"].state == "gone"
    assert last.pods["other/g-1"].messages == [last.pods["other/g-1"].message]


GANG = """
- id: s
  profile: {profile}
  nodes: [{{name: n, cpu: 3}}]
  never_partial: {{g: 4}}
  steps:
  - create_podgroup: {{name: g, min: 4, min_resources: {{cpu: 2, gpu: 1, mem: 3}}, timeout: 10, annotations: {{a: 1}}}}
  - create_pods: {{prefix: p, count: 4, group: g}}
  - expect: {{bound: {{g: 0}}, waiting: {{g: 3}}, pending: {{g: 1}}}}
"""


def test_a_restart_loses_memory_and_keeps_objects(run: Callable[..., Result]) -> None:
    """Reservations are gone, pods are not; bound ones are not bound twice."""
    result = run(
        GANG.format(profile="gang")
        + """
  - restart: {}
  - expect: {waiting: {g: 3}}
  - update_podgroup: {name: g, min: 3, annotations: {a: null, b: c}}
  - restart: {}
  - expect: {bound: {g: 3}, pending: {g: 1}}
  - restart: {}
  - expect: {bound: {g: 3}, pending: {g: 1}}
"""
    )
    # Three of four have a place, and since the group's minimum has changed that is enough; the invariant is older.
    assert result.failures == ["step 6 (restart), 0 s: set g is partial: 3 bound, the minimum is 4"]


def test_partial_groups_are_found_at_every_moment(run: Callable[..., Result]) -> None:
    """Also where nobody looks: between two steps, and although it is whole again when somebody does."""
    result = run("""
- id: s
  profile: all-but-one
  nodes: [{name: n, cpu: 2}]
  never_partial: {g: 3}
  steps:
  - create_podgroup: {name: g, min: 3}
  - create_pods: {prefix: p, count: 3, group: g}
  - add_nodes: [{name: m, cpu: 1}]
  - advance: 60
  - expect: {bound: {g: 3}}
""")
    assert result.failures == ["step 1 (create_pods), 0 s: set g is partial: 2 bound, the minimum is 3"]


def test_deleting_pods_ends_the_check_for_partial_groups(run: Callable[..., Result]) -> None:
    """After a step that deletes or completes members, a part may be left."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 3}]
  never_partial: {p: 3, q: 1}
  steps:
  - create_pods: {prefix: p, count: 3}
  - delete_pods: {pods: [p-1]}
  - complete_pods: {pods: [default/p-2]}
  - expect: {bound: {p: 1}}
""")
    assert result.failures == []


def test_overcommitted_nodes_are_found(run: Callable[..., Result]) -> None:
    """Whoever it was that put too much there."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 1, mem: 100, pods: 2}]
  steps:
  - create_pods: {prefix: a, cpu: 0.5, mem: 100}
  - create_pods: {prefix: b, cpu: 1, mem: 1, node: n, phase: Running}
  - create_pods: {prefix: c, cpu: 0, node: n, phase: Running}
""")
    assert result.failures == [
        "step 1 (create_pods), 0 s: node n is overcommitted: cpu",
        "step 1 (create_pods), 0 s: node n is overcommitted: memory",
        "step 2 (create_pods), 0 s: node n is overcommitted: pods",
    ]


def test_groups_are_written_in_every_dialect(run: Callable[..., Result]) -> None:
    """A pod is in the set of its group, whichever key says so; a group that is changed or emptied is another set."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 20}]
  steps:
  - batch:
    - create_podgroup: {name: a, dialect: sigs, min: 1}
    - create_podgroup: {name: b, dialect: ming, min: 0, ns: there}
    - create_podgroup: {name: c, dialect: koordinator, min: 1}
    - create_podgroup: {name: d, dialect: intree, min: 1}
    - create_podgroup: {name: bad, dialect: sigs, min: 0, expect_error: "spec.minMember"}
    - create_podgroup: {name: word, dialect: sigs, min: many, expect_error: true}
    - create_pods: {prefix: a, group: a}
    - create_pods: {prefix: b, group: b, dialect: ming, ns: there}
    - create_pods: {prefix: c, group: c, dialect: koordinator}
    - create_pods: {prefix: e, group: e, dialect: annotation}
    - create_pods: {prefix: f, group: f, dialect: lightweight, labels: {n: 3}}
  - expect: {bound: {a: 1, there/b: 1, c: 1, e: 1, f: 1}, phase: {a: "", there/b: ""}}
  - update_pods: {pods: [e-0], group: z}
  - update_pods: {pods: [a-0], group: ""}
  - expect: {bound: {e: 0, z: 1, a: 1}}
  - delete_podgroup: {name: c}
""")
    assert result.failures == []
    assert set(result.steps[0].groups) == {"default/a", "there/b", "default/c", "default/d"}
    assert set(result.steps[-1].groups) == {"default/a", "there/b", "default/d"}


def test_each_kind_of_failed_expectation_is_reported(run: Callable[..., Result]) -> None:
    """A failure has the actual value, the expected one, and the time; the scenario goes on."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 1}]
  steps:
  - create_podgroup: {name: g, min: 1}
  - create_pods: {prefix: p, count: 2, annotations: {a: b}}
  - expect: {bound: {p: 2, q: 0}, waiting: {p: 1}, pending: {p: 0}, bound_total: 3, within: 2}
  - expect: {reason_any: {p: [memory]}, reason_all: {p: [cpu, gpu], q: [cpu]}}
  - expect: {events: {p: [memory]}, no_events: {p: [cpu]}}
  - expect: {annotation_all: {p: {a: c}, q: {a: b}}, annotation_none: {p: [a]}, phase: {g: Running, h: Running}}
  - delete_pods: {of: p, state: waiting, count: 1}
  - delete_pods: {pods: [nobody]}
  - update_podgroup: {name: h, min: 1}
  - create_podgroup: {name: g, min: 1}
  - create_podgroup: {name: i, min: 1, expect_error: true}
  - expect: {bound: {p: 1}}
""")
    failures = result.failures
    fit = failures[4].rpartition("but ")[2]
    assert fit.startswith("1 say: 0/1 nodes are available: 1 Insufficient cpu")
    assert failures == [
        "step 2 (expect), 2 s: set p: 1 pods are bound, not 2, after 2 s",
        "step 2 (expect), 2 s: set p: 0 pods are waiting, not 1, after 2 s",
        "step 2 (expect), 2 s: set p: 1 pods are pending, not 0, after 2 s",
        "step 2 (expect), 2 s: 1 pods are bound in total, expected 3, after 2 s",
        f'step 3 (expect), 2 s: set p: no pending pod has the message "memory", but {fit}',
        f'step 3 (expect), 2 s: set p: not every pending pod has the message "gpu", but {fit}',
        'step 3 (expect), 2 s: set q: not every pending pod has the message "cpu", but no pod is pending',
        'step 4 (expect), 2 s: set p: no message contains "memory"',
        'step 4 (expect), 2 s: set p: a message contains "cpu"',
        "step 5 (expect), 2 s: set p: annotation a is not 'c' on p-0, p-1",
        "step 5 (expect), 2 s: set q: annotation a is not 'b' on any pod",
        "step 5 (expect), 2 s: set p: annotation a is on p-0, p-1",
        "step 5 (expect), 2 s: group g: the phase is '', not 'Running'",
        "step 5 (expect), 2 s: group h: the phase is 'that of no object', not 'Running'",
        "step 6 (delete_pods), 2 s: set p has 0 waiting pods to delete, not 1",
        'step 7 (delete_pods), 2 s: pods "nobody" not found',
        "step 8 (update_podgroup), 2 s: podgroup default/h was never created",
        'step 9 (create_podgroup), 2 s: podgroups.scheduling.x-k8s.io "g" already exists',
        "step 10 (create_podgroup), 2 s: podgroup default/i was created; the API server should have rejected it",
    ]
    assert len(result.steps) == 12


def test_recreated_pod_is_another_pod(run: Callable[..., Result]) -> None:
    """The living one is shown, with messages of its own."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 1}]
  steps:
  - create_pods: {prefix: p, cpu: 2}
  - delete_pods: {pods: [p-0]}
  - create_pods: {prefix: p, cpu: 1}
  - expect: {bound: {p: 1}, events: {p: [Insufficient cpu]}}
""")
    assert result.failures == []
    assert result.steps[1].pods["default/p-0"].state == "gone"
    assert result.steps[1].pods["default/p-0"].messages
    assert result.steps[2].pods["default/p-0"].messages == []


def test_lowest_names_are_deleted_first(run: Callable[..., Result]) -> None:
    """By number, not by letter."""
    result = run("""
- id: s
  profile: plain
  nodes: [{name: n, cpu: 20}]
  steps:
  - create_pods: {prefix: p, count: 12}
  - delete_pods: {of: p, count: 3}
""")
    gone = {key for key, pod in result.steps[-1].pods.items() if pod.state == "gone"}
    assert gone == {"default/p-0", "default/p-1", "default/p-2"}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(run: Callable[..., Result]) -> None:
    """And an hour takes no time to speak of."""
    text = GANG.format(profile="gang") + "  - advance: 3600\n"
    first, again = (as_json([run(text, seed=7)]) for _ in range(2))
    assert first == again
    (decoded,) = msgspec.json.decode(first)
    assert list(decoded) == ["id", "passed", "failures", "steps"]
    assert list(decoded["steps"][0]) == ["step", "time", "pods", "groups"]
    assert list(decoded["steps"][1]["pods"]["default/p-0"]) == [
        "state",
        "node",
        "set",
        "message",
        "messages",
        "annotations",
    ]
