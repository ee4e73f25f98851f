"""Groups with sub-groups over HTTP: whole sub-groups are bound, and `kubectl podgroup` says which one is short."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.programs import PATIENCE_SECONDS, Api, program, served

ROOT = Path(__file__).parents[2]
PODS = "/api/v1/namespaces/default/pods"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 2
profiles:
  - schedulerName: pyscheduler
    plugins:
      queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
      multiPoint: {enabled: [{name: Coscheduling}]}
    pluginConfig:
      - name: Coscheduling
        args: {strategy: groupCycle, podGroupBackoffSeconds: 0}
"""


#: API group, annotation of pods, and a group that needs two of three sub-groups of four pods.
Dialect = tuple[str, str, dict[str, Any]]


def kai() -> Dialect:
    """Return the words of KAI."""
    sub_groups = [{"name": name, "minMember": 4} for name in "abc"]
    return "scheduling.run.ai", "pod-group-name", {"minSubGroup": 2, "subGroups": sub_groups}


def volcano() -> Dialect:
    """Return the words of Volcano: the label `slice` makes the sub-groups."""
    policy = {"name": "tp", "matchLabelKeys": ["slice"], "subGroupSize": 4, "minSubGroups": 2}
    return "scheduling.volcano.sh", "scheduling.k8s.io/group-name", {"minMember": 8, "subGroupPolicy": [policy]}


def member(name: str, annotation: str) -> dict[str, Any]:
    """Return a pod of one CPU; the first letter of its name is its sub-group, in both dialects."""
    pod = pod_manifest(name, requests={"cpu": "1"}, labels={"slice": name[0], "kai.scheduler/subgroup-name": name[0]})
    pod["metadata"]["annotations"] = {annotation: "g"}
    return pod


async def until_bound(api: Api, expected: Mapping[str, int]) -> None:
    """Wait until these many pods of each sub-group are bound; fail if another number is bound before."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            pods = await api.items(PODS)
            bound = Counter(pod["metadata"]["name"][0] for pod in pods if pod["spec"].get("nodeName"))
            if bound == expected:
                return
            assert all(bound[name] <= count for name, count in expected.items()), bound
            assert bound.keys() <= expected.keys(), bound
            await asyncio.sleep(0.1)


async def until_told(api: Api, name: str, text: str) -> None:
    """Wait until the condition of a pod says this."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if text in (await api.until_refused(name))["message"]:
                return
            await asyncio.sleep(0.1)


async def described(api: Api, folder: Path) -> str:
    """Return what `kubectl podgroup describe g` prints."""
    file = folder / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": api.url}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    users = [{"name": "u", "user": {}}]
    file.write_text(
        json.dumps({"clusters": clusters, "contexts": contexts, "users": users, "current-context": "c"}),
        encoding="utf-8",
    )
    async with program("podgroup", "describe", "g", "--kubeconfig", str(file)) as shown:
        await shown.said("Events:")
        assert await shown.ended() == 0
        return " ".join(" ".join(shown.out).split())


@pytest.mark.parametrize(("dialect", "prefix"), [(kai, ""), (volcano, "tp/")])
async def test_two_of_three_sub_groups_start_whole(dialect: Any, prefix: str, tmp_path: Path) -> None:
    """Seven places bind nothing, eight bind two sub-groups, and four more the third one."""
    group, annotation, spec = dialect()
    definition = yaml.safe_load((ROOT / f"configs/crds/podgroups.{group}.yaml").read_text(encoding="utf-8"))
    version = definition["spec"]["versions"][0]["name"]
    objects = [definition, node_manifest("n7", allocatable={"cpu": "7", "memory": "64Gi", "pods": "110"})]
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    async with served(tmp_path, objects) as api, program("run", "--master", api.url, "--config", str(config)):
        item = {"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
        path = f"/apis/{group}/{version}/namespaces/default/podgroups"
        assert (await api("POST", path, item))[0] == 201
        for number in range(4):
            for name in "abc":
                assert (await api("POST", PODS, member(f"{name}{number}", annotation)))[0] == 201
        await until_told(api, "a0", "1 of 2 sub-groups")
        assert not await api.placements()
        assert f"Sub-groups: {prefix}a 0/4, {prefix}b 0/4, {prefix}c 0/4" in await described(api, tmp_path)
        for name, cpu, expected in (("n1", "1", {"a": 4, "b": 4}), ("n4", "4", {"a": 4, "b": 4, "c": 4})):
            node = node_manifest(name, allocatable={"cpu": cpu, "memory": "64Gi", "pods": "110"})
            assert (await api("POST", "/api/v1/nodes", node))[0] == 201
            await until_bound(api, expected)
        assert f"{prefix}c 4/4" in await described(api, tmp_path)
