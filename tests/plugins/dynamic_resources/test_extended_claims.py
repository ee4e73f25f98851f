"""What a pod's extended resources come to as a claim; cases and answers are those of kube-scheduler's own tests."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.plugins.dynamic_resources.extended_claims import make_requests
from pyscheduler.testing import make_pod

A, B, INIT = "example.com/a", "example.com/b", "example.com/init"
IMPLICIT = "deviceclass.resource.kubernetes.io/initial"
CLASSES = {A: "class-a", B: "class-b", INIT: "initial", IMPLICIT: "initial"}


def pod(containers: list[dict[str, int]], init: list[dict[str, int] | tuple[dict[str, int]]] | None = None) -> Pod:
    """Make a pod of containers with these requests; a tuple among the init containers is a sidecar."""

    def container(name: str, requests: dict[str, int]) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {key: str(value) for key, value in requests.items()}}}

    first = [
        {**container(f"sidecar{place}", each[0]), "restartPolicy": "Always"}
        if isinstance(each, tuple)
        else container(f"init{place}", each)
        for place, each in enumerate(init or [])
    ]
    last = [container(f"main{place}", each) for place, each in enumerate(containers)]
    return make_pod("p", spec={"initContainers": first, "containers": last})


CASES = [
    pytest.param(pod([{A: 1}]), ["0-0 class-a 1"], ["main0 example.com/a 0-0"], id="one resource"),
    pytest.param(
        pod([{A: 1, "cpu": 2, "example.com/other": 3}]),
        ["0-1 class-a 1"],
        ["main0 example.com/a 0-1"],
        id="the number of a request counts all resources of the container",
    ),
    pytest.param(
        pod([{A: 1, B: 2}]),
        ["0-0 class-a 1", "0-1 class-b 2"],
        ["main0 example.com/a 0-0", "main0 example.com/b 0-1"],
        id="two resources",
    ),
    pytest.param(
        pod([{A: 1}, {B: 2}]),
        ["0-0 class-a 1", "1-0 class-b 2"],
        ["main0 example.com/a 0-0", "main1 example.com/b 1-0"],
        id="two containers",
    ),
    pytest.param(
        pod([{A: 1}], [{INIT: 2}]),
        ["0-0 initial 2", "1-0 class-a 1"],
        ["main0 example.com/a 1-0", "init0 example.com/init 0-0"],
        id="an init container with a resource of its own",
    ),
    pytest.param(
        pod([{A: 1}], [{INIT: 1}, {INIT: 2}]),
        ["1-0 initial 2", "2-0 class-a 1"],
        ["main0 example.com/a 2-0", "init0 example.com/init 1-0", "init1 example.com/init 1-0"],
        id="init containers share the largest of their requests",
    ),
    pytest.param(
        pod([{A: 1}], [{INIT: 1}, ({INIT: 1},), {INIT: 2}]),
        ["1-0 initial 1", "2-0 initial 2", "3-0 class-a 1"],
        [
            "main0 example.com/a 3-0",
            "sidecar1 example.com/init 1-0",
            "init0 example.com/init 1-0",
            "init2 example.com/init 2-0",
        ],
        id="an init container uses the devices of a sidecar after it, not of one before it",
    ),
    pytest.param(
        pod([{A: 1}], [{INIT: 1}, {IMPLICIT: 2}]),
        ["0-0 initial 1", "1-0 initial 2", "2-0 class-a 1"],
        [
            "init1 deviceclass.resource.kubernetes.io/initial 1-0",
            "main0 example.com/a 2-0",
            "init0 example.com/init 0-0",
        ],
        id="two names of one class are two resources",
    ),
    pytest.param(
        pod([{A: 2}], [{A: 3}]),
        ["0-0 class-a 1", "1-0 class-a 2"],
        ["main0 example.com/a 1-0", "init0 example.com/a 1-0", "init0 example.com/a 0-0"],
        id="an init container asks only for what later containers do not have",
    ),
    pytest.param(
        pod([{A: 2}, {A: 2}], [{A: 3}]),
        ["1-0 class-a 2", "2-0 class-a 2"],
        ["main0 example.com/a 1-0", "main1 example.com/a 2-0", "init0 example.com/a 1-0", "init0 example.com/a 2-0"],
        id="an init container uses the devices of several",
    ),
    pytest.param(pod([{A: 0}]), [], [], id="nothing of a resource"),
    pytest.param(pod([{"cpu": 1}]), [], [], id="no such resource"),
]


@pytest.mark.parametrize(("asking", "requests", "mappings"), CASES)
def test_requests_and_mappings(asking: Pod, requests: list[str], mappings: list[str]) -> None:
    """Each container and resource is a request, named after its place; mappings say which request serves it."""
    found, mapped = make_requests(asking, CLASSES)
    shown = [
        f"{each.name} {each.exactly.device_class_name} {each.exactly.count}"
        for each in found
        if each.exactly is not None and each.exactly.allocation_mode == "ExactCount"
    ]
    assert shown == [f"container-{each[0]}-request-{each[2:]}" for each in requests]
    assert [f"{each.container_name} {each.resource_name} {each.request_name}" for each in mapped] == [
        f"{name} {resource} container-{place[0]}-request-{place[2]}"
        for name, resource, place in (each.split() for each in mappings)
    ]


def test_requests_are_sorted_as_texts() -> None:
    """The eleventh container comes before the third, as kube-scheduler sorts names."""
    found, _ = make_requests(pod([{A: 1}] * 11), CLASSES)
    assert [each.name for each in found][:3] == [
        "container-0-request-0",
        "container-1-request-0",
        "container-10-request-0",
    ]
