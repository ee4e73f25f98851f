"""A cluster for deadlocks of groups, and a scheduler with `Coscheduling` and `Gang`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyscheduler.api import KubeObject
from pyscheduler.framework import Plugin
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster, FakeFramework
from pyscheduler_coscheduling.deadlock_resolver.deadlocks import Deadlocks

TABLE: Final = DialectTable(DIALECTS)
PREFIX: Final = "gang.scheduling.koordinator.sh/"
DIALECT: Final = {"Coscheduling": "sigs", "Gang": "koordinator"}
GRACE: Final = 2
LEASE: Final = 30


class DeadlockCluster:
    """Nodes, groups and pods; what has become of them, and what the resolver did."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        for dialect in DIALECT.values():
            cluster.serve(TABLE.named(dialect).kinds[0])
        self.plugin_of: dict[str, str] = {}
        self.minimum: dict[str, int] = {}
        self._framework: FakeFramework | None = None

    # --- what there is

    def schedule(
        self,
        *,
        deadlock: Mapping[str, Any] | None = None,
        profiles: tuple[str, ...] = ("pyscheduler",),
        preemption: bool = False,
        disable: Mapping[str, str] | None = None,
        gates: str = "",
        enable: Sequence[type[Plugin]] = (),
        **coscheduling: Any,
    ) -> FakeFramework:
        """Make a scheduler whose profiles have both plugins; `disable` maps extension points to a plugin left out."""
        args = {"graceSeconds": GRACE, "yieldLeaseSeconds": LEASE, **(deadlock or {})}
        enabled = ["Coscheduling", "Gang", *(plugin.name for plugin in enable)]
        off = [] if preemption else [{"name": "DefaultPreemption"}]
        points: dict[str, Any] = {
            "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "GangSort"}]},
            "multiPoint": {"enabled": [{"name": name} for name in enabled]},
            "postFilter": {"disabled": off},
        }
        for point, name in (disable or {}).items():
            points.setdefault(point, {"disabled": []})["disabled"].append({"name": name})
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": points,
                    "pluginConfig": [
                        {"name": "Gang", "args": {"deadlock": args}},
                        {
                            "name": "Coscheduling",
                            "args": {"permitWaitingTimeSeconds": 600, "deadlock": args, **coscheduling},
                        },
                        {"name": "GangSort", "args": {"order": "gang"}},
                    ],
                }
                for name in profiles
            ],
        }
        self._framework = self.cluster.framework(config=json.dumps(config), enable=enable, feature_gates=gates)
        return self._framework

    def node(self, name: str, cpu: float, **keywords: Any) -> None:
        """Add a node with so many cores."""
        self.cluster.add_node(name, allocatable={"cpu": f"{round(cpu * 1000)}m", "pods": "110"}, **keywords)

    def group(self, name: str, minimum: int, *, plugin: str = "Gang", mode: str = "NonStrict", **said: str) -> None:
        """Create a PodGroup that `plugin` serves."""
        kind = TABLE.named(DIALECT[plugin]).kinds[0]
        annotations = {PREFIX + key.replace("_", "-"): value for key, value in {"mode": mode, **said}.items()}
        self.plugin_of[name], self.minimum[name] = plugin, minimum
        self.cluster.add(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": annotations if plugin == "Gang" else {},
                },
                "spec": {"minMember": minimum},
            },
            kind.type,
        )

    def change(self, name: str, minimum: int) -> None:
        """Change a group's minimum."""
        self.cluster.patch(self.kind(name), name, {"spec": {"minMember": minimum}}, namespace="default")
        self.minimum[name] = minimum

    def kind(self, group: str) -> type[KubeObject]:
        """Return the type of a group's object."""
        return TABLE.named(DIALECT[self.plugin_of[group]]).kinds[0].type

    def pods(
        self, group: str, count: int, *, prefix: str = "", start: int = 0, cpu: float = 1, **keywords: Any
    ) -> None:
        """Create members."""
        extra = keywords.pop("extra_labels", {})
        label = TABLE.named(DIALECT[self.plugin_of[group]]).keys[0].name
        for number in range(start, start + count):
            name = f"{prefix or group}-{number}"
            requests = {"cpu": f"{round(cpu * 1000)}m"}
            self.cluster.add_pod(name, labels={label: group, "set": group, **extra}, requests=requests, **keywords)

    def hold(self, group: str, held: int, missing: int, *, plugin: str = "Gang", **said: Any) -> None:
        """Create a group of which so many members are tried at once, and so many after all of those."""
        self.group(group, held + missing, plugin=plugin, **said)
        self.pods(group, held, prefix=f"{group}-hi", priority=10)

    def lack(self, group: str, missing: int) -> None:
        """Create the members that are tried last."""
        self.pods(group, missing, prefix=f"{group}-lo")

    # --- what becomes of it

    @property
    def running(self) -> FakeFramework:
        """Return the scheduler."""
        assert self._framework is not None
        return self._framework

    @property
    def deadlocks(self) -> Deadlocks:
        """Return the resolver."""
        return Deadlocks.of(self.running.profile.handle)

    async def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that follows."""
        await self.running.settle()
        await self.clock.advance(seconds)
        await self.running.settle()

    def states(self, group: str) -> dict[str, int]:
        """Count a group's living pods by what has become of them."""
        members = [pod for pod in self.cluster.pods() if pod.labels.get("set") == group and not pod.is_terminal]
        return dict(Counter(self.running.result(pod.name).state for pod in members))

    def bound(self, group: str) -> int:
        """Count a group's bound pods."""
        return self.states(group).get("bound", 0)

    def messages(self, prefix: str) -> set[str]:
        """Return what was told about failures of pods of that prefix."""
        return {
            event["note"]
            for event in self.cluster.events("FailedScheduling")
            if event["regarding"]["name"].startswith(prefix)
        }

    def page(self, gang: str) -> dict[str, Any]:
        """Return what the health port shows of a gang."""
        page = self.running.scheduler.routes.answer(f"/apis/v1/plugins/Gang/gang/default/{gang}", {})
        assert isinstance(page, dict)
        return page

    def annotated(self) -> set[str]:
        """Return the pods whose gang was given up."""
        return {pod.name for pod in self.cluster.pods() if f"{PREFIX}timeout" in pod.annotations}

    def bound_pods(self) -> set[str]:
        """Return the uids of bound pods."""
        return {pod.uid for pod in self.cluster.pods() if pod.node_name}
