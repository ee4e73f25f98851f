"""A NodeInfo that becomes another says what a copy of it would, and goes its own way from then on."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyscheduler.framework.node_info import NodeInfo
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.testing import make_node, make_pod

_ANTI = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
#: What a pod brings with it, by what it is called.
_KINDS: dict[str, dict[str, Any]] = {
    "plain": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "gpu": {"requests": {"example.com/gpu": "2"}},
    "port": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}},
    "claim": {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}},
    "apart": {
        "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_ANTI]}}},
    },
}


def _facts(info: NodeInfo) -> dict[str, object]:
    facts = {field.name: getattr(info, field.name) for field in attrs.fields(NodeInfo) if field.name != "_places"}
    return {**facts, "used_ports": sorted(info.used_ports)}


def _node(kinds: tuple[str, ...], cpu: str) -> NodeInfo:
    pods = [PodInfo.of(make_pod(f"{kind}-{cpu}", **_KINDS[kind])) for kind in kinds]
    return NodeInfo.of(make_node("n", allocatable={"cpu": cpu}), pods)


_CASES = [pytest.param((), id="empty"), *(pytest.param((kind,), id=kind) for kind in _KINDS)]
_CASES.append(pytest.param(tuple(_KINDS), id="all"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("before", _CASES)
@pytest.mark.parametrize("after", _CASES)
def test_one_becomes_another(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Whatever was there before, nothing of it is left, and nothing is shared that can change."""
    old, new = _node(before, "4"), _node(after, "8")
    old.become(new)
    assert _facts(old) == _facts(new) == _facts(new.clone())
    expected = _facts(old.clone())
    for kind, keywords in _KINDS.items():
        new.add_pod(PodInfo.of(make_pod(f"late-{kind}", **keywords)))
    assert _facts(old) == expected
