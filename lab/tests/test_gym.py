"""The environment: Gymnasium's own check, episodes that repeat, masks that are the filters' answers, penalties."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from pyscheduler.api import Node
from pyscheduler.config.load import loads
from pyscheduler.framework import FilterPlugin, NodeInfo, ReservePlugin, Status
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing import FakeCluster, make_pod
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.gym import NODE_FEATURES, POD_FEATURES, PolicyScore, SchedulingEnv, split
from pyscheduler_lab.traces import Job
from pyscheduler_lab.traces.trace import Trace

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: %s}]}}
"""
ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: %s}]}}
"""


def jobs(count: int = 40) -> list[Job]:
    """Return jobs of which some end, some share GPUs, and some need a model that only one node has."""
    return [
        Job(
            name=f"job-{number}",
            arrival=float(number),
            duration=5.0 + number % 7,
            cpu_milli=2000,
            memory_mib=1024,
            gpus=1 if number % 3 == 0 else 1 + number % 4,
            gpu_milli=400 if number % 3 == 0 else 1000,
            gpu_models=("T4",) if number % 5 == 0 else (),
        )
        for number in range(count)
    ]


def env(**keywords: Any) -> SchedulingEnv:
    """Return an environment of three nodes of two models."""
    return SchedulingEnv(Cluster.read("2x4gpu:A100,1x2gpu:T4"), Trace(jobs=jobs()), **keywords)


def add_nodes(cluster: FakeCluster, nodes: Cluster) -> None:
    """Add the nodes to a fake cluster."""
    for manifest in nodes.manifests():
        cluster.add(manifest, Node)


def play(made: SchedulingEnv, seed: int, *, masked: bool = True) -> list[tuple[Any, ...]]:
    """Play an episode with random actions; return everything that was seen."""
    rng = np.random.default_rng(3)
    observation, info = made.reset(seed=seed)
    seen: list[tuple[Any, ...]] = [(observation.tobytes(), info["pod"])]
    ended = False
    while not ended:
        mask = made.action_masks() if masked else np.ones(len(made.action_masks()), dtype=np.bool_)
        action = rng.choice(np.flatnonzero(mask))
        observation, reward, ended, _, info = made.step(action)
        seen.append((observation.tobytes(), reward, info["pod"], info["time"], info["action_mask"].tobytes()))
    return seen


@pytest.mark.parametrize("load", [None, 1.3])
def test_gymnasium_accepts_the_environment(load: float | None) -> None:
    """`check_env` samples actions without a mask, so that infeasible ones are among them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*alternative render modes")
        check_env(env(load=load))


def test_a_seed_repeats_an_episode() -> None:
    """Also after other episodes in the same environment; another seed gives another order of arrivals."""
    made = env(load=1.3)
    first = play(made, 1)
    assert play(made, 2) != first
    assert play(made, 1) == first
    assert play(env(load=1.3), 1) == first


def test_the_trace_is_the_same_for_each_seed() -> None:
    """Without `load`, pods arrive as in the trace; all actions, feasible or not, are played to the end."""
    made = env()
    first = play(made, 1, masked=False)
    assert play(made, 2, masked=False) == first
    assert {name for _, _, name, *_ in first[1:]} >= {f"job-{number}-0" for number in range(1, 40)}


def test_the_mask_is_the_verdict_of_the_filters(pyscheduler_cluster: FakeCluster) -> None:
    """Each mask of an episode equals Filter of a framework on a cluster with the same pods."""
    whole = [job for job in jobs() if not job.shares_gpus]
    nodes = Cluster.read("2x4gpu:A100,1x2gpu:T4")
    made = SchedulingEnv(nodes, Trace(jobs=whole), load=1.5)
    add_nodes(pyscheduler_cluster, nodes)
    framework = pyscheduler_cluster.framework()
    made.reset(seed=0)
    rng = np.random.default_rng(0)
    ended, verdicts = False, set()
    while not ended:
        assert made._current is not None
        pod = made._current.info.pod
        expected = [status is None for status in framework.run_filter(pod).values()]
        mask = made.action_masks()
        assert mask.tolist() == [*expected, True]
        verdicts.update(expected)
        action = int(rng.choice(np.flatnonzero(mask)))
        if action < len(expected):
            pyscheduler_cluster.add_pod(pod.with_node_name(nodes.nodes[action].name))
        _, _, ended, _, _ = made.step(action)
    assert verdicts == {True, False}


def test_an_infeasible_action_costs_a_penalty() -> None:
    """The pod stays pending, and the info says why; the last action costs nothing."""
    made = SchedulingEnv(
        Cluster.uniform(1, gpus=1),
        Trace(jobs=[Job(name=name, arrival=n, duration=100, gpus=1) for n, name in enumerate("abc")]),
        penalty=0.25,
    )
    made.reset(seed=0)
    assert made.step(0)[1] == 1.0
    _, reward, ended, truncated, info = made.step(0)
    assert (reward, ended, truncated) == (-0.25, False, False)
    assert info["reason"] == "node-0 is not feasible for jobs/b-0"
    assert info["action_mask"].tolist() == [0, 1]
    # Two pods wait until the first one has ended.
    _, reward, ended, _, info = made.step(1)
    assert (reward, ended, info["pod"], info["time"], info["pending"]) == (0.0, False, "b-0", 100.0, 1)
    made.step(0)
    _, _, ended, _, info = made.step(1)
    assert (ended, info["pending"]) == (True, 1)
    assert info["action_mask"].tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"the episode has ended, or has not begun; call reset\(\)"):
        made.step(1)


def test_a_number_that_is_no_action_is_a_mistake() -> None:
    """One line says which numbers are actions."""
    made = env()
    made.reset(seed=0)
    with pytest.raises(ValueError, match="the action is 4; it must be from 0 to 3"):
        made.step(4)


def test_vector_environments() -> None:
    """Two environments step at once, each with its own seed; infos are arrays."""
    both = SyncVectorEnv([lambda: env(load=1.3), lambda: env(load=1.3)])
    observations, info = both.reset(seed=[1, 2])
    assert observations.shape == (2, 3 * len(NODE_FEATURES) + len(POD_FEATURES))
    assert info["action_mask"].shape == (2, 4)
    assert np.array_equal(observations[0], env(load=1.3).reset(seed=1)[0])
    actions = np.array([np.flatnonzero(mask)[0] for mask in info["action_mask"]])
    assert both.step(actions)[1].shape == (2,)
    assert [mask.shape for mask in both.call("action_masks")] == [(4,), (4,)]
    both.close()


def test_observation_has_free_and_shared_gpus() -> None:
    """Two pods share one GPU of the first node; values are shares of the largest node."""
    made = SchedulingEnv(
        Cluster.read("1x4gpu,1x2gpu"),
        Trace(jobs=[Job(name=name, arrival=n, duration=9, gpus=1, gpu_milli=300) for n, name in enumerate("abc")]),
    )
    observation, _ = made.reset(seed=0)
    assert split(observation)[0][:, 2].tolist() == [1.0, 0.5]
    assert split(observation)[1][2:].tolist() == pytest.approx([0.25, 0.3])
    made.step(0)
    observation, *_, info = made.step(0)
    nodes, _ = split(observation)
    assert nodes[0, 2:].tolist() == pytest.approx([0.75, 0.1, 0.4, 1.0])
    assert nodes[1, 2:].tolist() == pytest.approx([0.5, 0.0, 0.0, 0.5])
    assert info["gpu_allocation"] == pytest.approx(0.1)


class Picky(FilterPlugin, ReservePlugin):
    """Filters out the first node, and refuses to reserve the second."""

    name: ClassVar[str] = "Picky"

    def filter(self, state: Any, pod: Any, node: NodeInfo) -> Status | None:
        return Status.unschedulable("not this one") if node.node is not None and node.node.name == "node-0" else None

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return Status.unschedulable("reserved for others") if node_name == "node-1" else None

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        """Nothing is kept."""


def test_plugins_of_the_profile_decide() -> None:
    """Filter of a plugin closes an action; a rejection at Reserve is an infeasible action."""
    registry = discover()
    registry.add("Picky", Picky)
    made = env(config=loads(PROFILE % "Picky", source="test"), registry=registry)
    _, info = made.reset(seed=0)
    assert info["action_mask"][0] == 0
    made.step(3)
    _, reward, _, _, info = made.step(1)
    assert (reward, info["reason"]) == (-0.1, "reserved for others")
    assert info["gpu_allocation"] == 0.0


def test_mistakes_of_users() -> None:
    """One line each."""
    with pytest.raises(ConfigError, match="load is -1; it must be above 0, and cluster and trace must have GPUs"):
        env(load=-1)
    text = PROFILE % "GpuSharing" + "extenders: [{urlPrefix: http://localhost:1, filterVerb: filter}]\n"
    with pytest.raises(ConfigError, match="the environment asks no extenders"):
        env(config=loads(text, source="test"))
    with pytest.raises(ConfigError, match="cluster must be a Cluster"):
        SchedulingEnv("4x8gpu", Trace(jobs=()))  # type: ignore[arg-type]  # the mistake


class Last(PolicyScore):
    """Prefers the node with the greatest row."""

    name: ClassVar[str] = "Last"

    def action_scores(self, observation: NDArray[np.float32]) -> NDArray[np.float64]:
        nodes, _ = split(observation)
        return np.arange(len(nodes) + 1, dtype=np.float64)


class Fullest(PolicyScore):
    """Prefers the node with the fewest free GPUs."""

    name: ClassVar[str] = "Fullest"

    def action_scores(self, observation: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.append(-split(observation)[0][:, 2], 0.0)


class Wrong(PolicyScore):
    """Forgets the last action."""

    name: ClassVar[str] = "Wrong"

    def action_scores(self, observation: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.zeros(len(split(observation)[0]))


@pytest.mark.parametrize("policy", [Last, Fullest])
async def test_a_policy_is_a_score_plugin(pyscheduler_cluster: FakeCluster, policy: type[PolicyScore]) -> None:
    """In a profile, pods are bound to the nodes that the same policy chooses in the environment."""
    nodes = Cluster.read("2x4gpu,2x2gpu,1x8gpu")
    arriving = [Job(name=f"job-{n}", arrival=n, duration=1000, cpu_milli=1000, gpus=1 + n % 3) for n in range(8)]
    made = SchedulingEnv(nodes, Trace(jobs=arriving))
    observation, _ = made.reset(seed=0)
    scorer = policy()
    add_nodes(pyscheduler_cluster, nodes)
    framework = pyscheduler_cluster.framework(enable=[policy], config=ALONE % policy.name, seed=0)
    for job in arriving:
        # The first of equal nodes: two policies that disagree about ties only would not differ.
        scores = np.where(made.action_masks(), scorer.action_scores(observation), -np.inf)[:-1]
        gpus = str(job.gpus)
        pod = make_pod(job.name, requests={"cpu": "1", "nvidia.com/gpu": gpus})
        result = await framework.schedule(pod)
        names = [node.name for node in nodes.nodes]
        row = names.index(str(result.node))
        assert scores[row] == scores.max()
        observation, *_ = made.step(row)


async def test_a_policy_of_the_wrong_size_is_an_error_of_the_plugin(pyscheduler_cluster: FakeCluster) -> None:
    """The pod stays pending, and the message says how many scores are needed."""
    add_nodes(pyscheduler_cluster, Cluster.uniform(2))
    framework = pyscheduler_cluster.framework(enable=[Wrong], config=ALONE % "Wrong", allow_plugin_errors=True)
    result = await framework.schedule("a")
    assert result.state == "pending"
    assert "returned an array of shape (2,); it must have 3 scores" in str(framework.plugin_errors[0])


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the share of GPUs that pods have at the end of the episode."""
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = page.partition("## Learn a policy")[2].partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert 0.8 < float(capsys.readouterr().out) <= 1


def test_a_policy_runs_without_gymnasium() -> None:
    """The plugin is imported without Gymnasium; the environment says which extra is missing."""
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from pyscheduler_lab.gym import PolicyScore\n"
        "try:\n    from pyscheduler_lab.gym import SchedulingEnv\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'kube-pyscheduler-lab[gym]'" in done.stdout
