"""What a pod requests: the formula of the Kubernetes API, with resizes, and the defaults used in scores."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_objects.containers import Container, ContainerPort, ContainerStatus, ResourceRequirements
from kube_objects.errors import QuantityError
from kube_objects.meta import RawQuantity
from kube_objects.pods import Pod, PodCondition, PodSpec, PodStatus
from kube_objects.quantity import MAX_INT64
from kube_objects.resources import (
    amounts_of,
    container_requests,
    has_pod_level_requests,
    host_ports,
    is_resize_infeasible,
    non_zero_requests,
    pod_limits,
    pod_requests,
    qos_class,
)

MI = 1024 * 1024
DEFAULT_MEMORY = 200 * MI


def requirements(**requests: RawQuantity) -> ResourceRequirements:
    """Make requests; `gpu` stands for an extended resource, `huge` for huge pages."""
    names = {"gpu": "example.com/gpu", "huge": "hugepages-2Mi"}
    return ResourceRequirements(requests={names.get(name, name): raw for name, raw in requests.items()})


def container(name: str = "c", *, restart: str = "", **requests: RawQuantity) -> Container:
    """Make a container that requests something."""
    return Container(name=name, restart_policy=restart, resources=requirements(**requests))


def sidecar(name: str = "s", **requests: RawQuantity) -> Container:
    """Make an init container that keeps running."""
    return container(name, restart="Always", **requests)


def make(*containers: Container, init: tuple[Container, ...] = (), **spec: Any) -> Pod:
    """Make a pod of containers."""
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **spec))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make(), {}, id="nothing"),
        pytest.param(make(container(cpu="100m", memory="1Mi")), {"cpu": 100, "memory": MI}, id="one container"),
        pytest.param(
            make(container(cpu="100m"), container(cpu="1", memory="1Mi")),
            {"cpu": 1100, "memory": MI},
            id="containers add",
        ),
        pytest.param(
            make(container(gpu="2", huge="4Mi")), {"example.com/gpu": 2, "hugepages-2Mi": 4 * MI}, id="others"
        ),
        pytest.param(make(container(cpu="0")), {"cpu": 0}, id="zero is kept"),
        pytest.param(make(container(cpu=1.5, memory=1000)), {"cpu": 1500, "memory": 1000}, id="bare numbers"),
        pytest.param(make(container(cpu="0.0001")), {"cpu": 1}, id="rounds up"),
        pytest.param(make(container(memory="500m"), container(memory="500m")), {"memory": 1}, id="rounds the sum"),
        pytest.param(make(container(memory="9E"), container(memory="9E")), {"memory": MAX_INT64}, id="ends at 64 bits"),
        pytest.param(
            make(container(cpu="1", memory="1"), init=(container(cpu="2"), container(memory="3"))),
            {"cpu": 2000, "memory": 3},
            id="init containers: the largest, per resource",
        ),
        pytest.param(make(container(cpu="3"), init=(container(cpu="2"),)), {"cpu": 3000}, id="a small init container"),
        pytest.param(make(container(cpu="1"), init=(sidecar(cpu="2"),)), {"cpu": 3000}, id="a sidecar adds"),
        pytest.param(
            make(container(cpu="1"), init=(sidecar(cpu="2"), container(cpu="5"))),
            {"cpu": 7000},
            id="an init container beside the sidecar before it",
        ),
        pytest.param(
            make(container(cpu="1"), init=(container(cpu="5"), sidecar(cpu="2"))),
            {"cpu": 5000},
            id="an init container before the sidecar",
        ),
        pytest.param(
            make(container(cpu="1"), init=(sidecar(cpu="1"), container(cpu="2"), sidecar(cpu="3"), container(cpu="4"))),
            {"cpu": 8000},
            id="sidecars accumulate",
        ),
        pytest.param(
            make(container(cpu="1"), init=(container(cpu="4", restart="OnFailure"),)),
            {"cpu": 4000},
            id="only Always makes a sidecar",
        ),
        pytest.param(
            make(container(cpu="1"), init=(container(cpu="3"),), overhead={"cpu": "250m", "memory": "1Mi"}),
            {"cpu": 3250, "memory": MI},
            id="overhead on top of everything",
        ),
        pytest.param(
            make(container(cpu="1", memory="1", gpu="1"), resources=requirements(cpu="4")),
            {"cpu": 4000, "memory": 1, "example.com/gpu": 1},
            id="pod-level requests replace sums",
        ),
        pytest.param(
            make(container(cpu="4"), resources=requirements(cpu="2", huge="2Mi")),
            {"cpu": 2000, "hugepages-2Mi": 2 * MI},
            id="even by less",
        ),
        pytest.param(
            make(container(gpu="1"), resources=requirements(gpu="5")),
            {"example.com/gpu": 1},
            id="an extended resource has no pod level",
        ),
        pytest.param(
            make(container(cpu="1"), resources=requirements(cpu="2"), overhead={"cpu": "1"}),
            {"cpu": 3000},
            id="overhead on top of the pod level",
        ),
        pytest.param(
            make(container(cpu="1"), resources=ResourceRequirements(limits={"cpu": "9"})),
            {"cpu": 1000},
            id="pod-level limits are no requests",
        ),
    ],
)
def test_requests_follow_the_formula(pod: Pod, expected: dict[str, int]) -> None:
    """CPU in thousandths, everything else in whole units; a pod without status needs no resize rules."""
    assert pod_requests(pod) == expected
    assert pod_requests(pod, use_status=False) == expected


def test_pod_level_requests_can_be_switched_off() -> None:
    """Without the feature gate the containers are summed as ever."""
    pod = make(container(cpu="1"), resources=requirements(cpu="2"))
    assert has_pod_level_requests(pod)
    assert pod_requests(pod, pod_level=False) == {"cpu": 1000}
    assert not has_pod_level_requests(make(resources=requirements(gpu="1")))


def running(wanted: str, in_force: str | None, allocated: str | None, *, infeasible: bool = False, **spec: Any) -> Pod:
    """Make a running pod whose container wants, has and was allotted some CPU."""
    status = ContainerStatus(
        name="c",
        resources=requirements(cpu=in_force) if in_force else None,
        allocated_resources={"cpu": allocated} if allocated else {},
    )
    condition = PodCondition(type="PodResizePending", status="True", reason="Infeasible" if infeasible else "Deferred")
    return Pod(
        spec=PodSpec(containers=(container(cpu=wanted),), **spec),
        status=PodStatus(container_statuses=(status,), conditions=(condition,)),
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(running("1", "1", "1"), 1000, id="at rest"),
        pytest.param(running("2", "1", "1"), 2000, id="growing, wanted"),
        pytest.param(running("1", "1", "3"), 3000, id="allocated is the largest"),
        pytest.param(running("1", "4", "3"), 4000, id="in force is the largest"),
        pytest.param(running("2", "1", "1", infeasible=True), 1000, id="infeasible: the wish does not count"),
        pytest.param(running("2", "1", "3", infeasible=True), 3000, id="infeasible: the rest does"),
        pytest.param(running("2", None, "3"), 2000, id="a status without resources says nothing"),
        pytest.param(running("2", "3", None), 3000, id="nothing allocated"),
    ],
)
def test_a_resize_counts_the_largest_of_wanted_allocated_and_in_force(pod: Pod, expected: int) -> None:
    """While a resize is under way the node may need any of the three."""
    assert pod_requests(pod) == {"cpu": expected}
    assert pod_requests(pod, use_status=False) == {
        "cpu": 1000 if pod.spec.containers[0].resources.requests["cpu"] == "1" else 2000
    }


def test_the_first_pending_condition_decides_whether_a_resize_is_infeasible() -> None:
    """Other conditions have nothing to say about it."""
    other = PodCondition(type="Ready", reason="Infeasible")
    infeasible = PodCondition(type="PodResizePending", reason="Infeasible")
    deferred = PodCondition(type="PodResizePending", reason="Deferred")
    assert not is_resize_infeasible(Pod())
    assert not is_resize_infeasible(Pod(status=PodStatus(conditions=(other,))))
    assert is_resize_infeasible(Pod(status=PodStatus(conditions=(other, infeasible))))
    assert not is_resize_infeasible(Pod(status=PodStatus(conditions=(deferred, infeasible))))


def test_a_sidecar_can_be_resized_and_another_init_container_cannot() -> None:
    """An init container that ends is counted by its spec, whatever its status says."""
    statuses = tuple(ContainerStatus(name=name, resources=requirements(cpu="5")) for name in ("s", "i"))
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="1"),), init_containers=(sidecar(cpu="1"), container("i", cpu="2"))),
        status=PodStatus(init_container_statuses=statuses),
    )
    assert pod_requests(pod) == {"cpu": 7000}
    assert pod_requests(pod, use_status=False) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(PodStatus(), {"cpu": 2000, "memory": 10}, id="no pod-level status"),
        pytest.param(PodStatus(resources=requirements(cpu="3")), {"cpu": 3000, "memory": 10}, id="in force"),
        pytest.param(
            PodStatus(resources=requirements(cpu="3"), allocated_resources={"cpu": "4", "memory": "20"}),
            {"cpu": 4000, "memory": 20},
            id="allocated",
        ),
        pytest.param(
            PodStatus(allocated_resources={"cpu": "4"}), {"cpu": 2000, "memory": 10}, id="allocated without in force"
        ),
        pytest.param(
            PodStatus(
                resources=requirements(cpu="1"),
                conditions=(PodCondition(type="PodResizePending", reason="Infeasible"),),
            ),
            {"cpu": 1000, "memory": 0},
            id="infeasible",
        ),
    ],
)
def test_a_resize_at_pod_level_counts_too(status: PodStatus, expected: dict[str, int]) -> None:
    """The status of the pod as a whole takes part once the node reports resources in force."""
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="1"),), resources=requirements(cpu="2", memory="10")), status=status
    )
    assert pod_requests(pod) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make(), (0, 0), id="no containers"),
        pytest.param(make(container()), (100, DEFAULT_MEMORY), id="silent"),
        pytest.param(make(container(), container()), (200, 2 * DEFAULT_MEMORY), id="silent twice"),
        pytest.param(make(container(cpu="1")), (1000, DEFAULT_MEMORY), id="memory silent"),
        pytest.param(make(container(cpu="0", memory="0")), (0, 0), id="an explicit zero stays zero"),
        pytest.param(make(container(cpu="1", memory="1Mi")), (1000, MI), id="explicit"),
        pytest.param(
            make(container(cpu="1", memory="1"), init=(container(),)), (1000, DEFAULT_MEMORY), id="silent init"
        ),
        pytest.param(make(container(), overhead={"cpu": "1"}), (1100, DEFAULT_MEMORY), id="overhead"),
        pytest.param(
            make(container(), container(), resources=requirements(cpu="1", memory="1Mi")), (1000, MI), id="pod level"
        ),
        pytest.param(
            make(container(memory="1Mi"), container(), resources=requirements(cpu="1")),
            (1000, MI),
            id="pod level for CPU, a container for memory",
        ),
        pytest.param(
            make(container(), container(), resources=requirements(cpu="1")),
            (1000, 2 * DEFAULT_MEMORY),
            id="pod level for CPU, nobody for memory",
        ),
        pytest.param(make(container(), resources=requirements(gpu="1")), (100, DEFAULT_MEMORY), id="no pod level"),
    ],
)
def test_in_scores_a_silent_container_counts_for_the_default(pod: Pod, expected: tuple[int, int]) -> None:
    """Otherwise pods without requests would all go to one node."""
    assert non_zero_requests(pod) == expected


def test_defaults_can_be_filled_in_per_container() -> None:
    """How scoring looks at the pod to place: pod-level requests do not stop the filling, they replace its result."""
    pod = make(container(memory="1Mi"), container(gpu="1"), resources=requirements(cpu="1"))
    assert pod_requests(pod, fill_missing=True) == {"cpu": 1000, "memory": MI + DEFAULT_MEMORY, "example.com/gpu": 1}
    assert pod_requests(make(container()), fill_missing=True) == {"cpu": 100, "memory": DEFAULT_MEMORY}


def test_defaults_are_used_in_a_resize_too() -> None:
    """What neither spec nor status mentions is missing."""
    assert non_zero_requests(running("1", "2", "1")) == (2000, DEFAULT_MEMORY)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make(container(cpu="much")), id="container"),
        pytest.param(make(container(cpu="1"), init=(container(memory="1_000"),)), id="init container"),
        pytest.param(make(container(cpu="1"), overhead={"cpu": "1 "}), id="overhead"),
        pytest.param(make(container(cpu="1"), resources=requirements(cpu="")), id="pod level"),
    ],
)
def test_a_malformed_amount_is_an_error(pod: Pod) -> None:
    """No amount is guessed; who takes in the pod reports it."""
    with pytest.raises(QuantityError, match="malformed"):
        pod_requests(pod)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make(), (), id="none"),
        pytest.param(make(Container(ports=(ContainerPort(container_port=80),))), (), id="not of the host"),
        pytest.param(
            make(Container(ports=(ContainerPort(container_port=80, host_port=8080),))),
            (("0.0.0.0", "TCP", 8080),),
            id="defaults",
        ),
        pytest.param(
            make(Container(ports=(ContainerPort(host_port=53, host_ip="10.0.0.1", protocol="UDP"),))),
            (("10.0.0.1", "UDP", 53),),
            id="explicit",
        ),
        pytest.param(
            make(
                Container(ports=(ContainerPort(host_port=1), ContainerPort(host_port=2))),
                init=(
                    Container(ports=(ContainerPort(host_port=3),)),
                    Container(ports=(ContainerPort(host_port=4),), restart_policy="Always"),
                ),
            ),
            (("0.0.0.0", "TCP", 4), ("0.0.0.0", "TCP", 1), ("0.0.0.0", "TCP", 2)),
            id="sidecars take ports, other init containers do not",
        ),
    ],
)
def test_ports_of_the_host(pod: Pod, expected: tuple[tuple[str, str, int], ...]) -> None:
    """Only containers that run for the pod's whole life hold on to a port."""
    assert host_ports(pod) == expected


CPUS = st.integers(0, 5000)
CONTAINERS = st.lists(st.builds(lambda cpu: container(cpu=f"{cpu}m"), CPUS), max_size=4).map(tuple)
INITS = st.lists(
    st.builds(lambda cpu, runs: (sidecar if runs else container)(cpu=f"{cpu}m"), CPUS, st.booleans()), max_size=5
).map(tuple)


@given(CONTAINERS, INITS)
def test_requests_cover_every_moment_of_the_pods_life(
    containers: tuple[Container, ...], inits: tuple[Container, ...]
) -> None:
    """The request is the peak of what runs at the same time, start to end."""

    def cpu(one: Container) -> int:
        return int(str(one.resources.requests["cpu"]).removesuffix("m"))

    started = 0
    moments = [0]
    for one in inits:
        moments.append(started + cpu(one))
        if one.restart_policy == "Always":
            started += cpu(one)
    moments.append(started + sum(map(cpu, containers)))
    assert pod_requests(make(*containers, init=inits)).get("cpu", 0) == max(moments)


def limited(name: str = "c", *, restart: str = "", **limits: RawQuantity) -> Container:
    """Make a container that is limited, and requests half a core."""
    return Container(
        name=name, restart_policy=restart, resources=ResourceRequirements(limits=limits, requests={"cpu": "500m"})
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make(container(cpu="1")), {}, id="nothing"),
        pytest.param(
            make(limited(cpu="1"), limited("d", cpu="2", memory="1Mi")), {"cpu": 3000, "memory": MI}, id="sum"
        ),
        pytest.param(make(limited(cpu="1"), init=(limited("i", cpu="4"),)), {"cpu": 4000}, id="init container"),
        pytest.param(
            make(limited(cpu="1"), init=(limited("s", restart="Always", cpu="1"), limited("i", cpu="4"))),
            {"cpu": 5000},
            id="init container beside a sidecar",
        ),
        pytest.param(
            make(limited(cpu="1"), overhead={"cpu": "100m", "memory": "1Mi"}),
            {"cpu": 1100},
            id="overhead on limits only",
        ),
        pytest.param(
            make(limited(cpu="1"), resources=ResourceRequirements(limits={"cpu": "7", "example.com/gpu": "1"})),
            {"cpu": 7000},
            id="of the pod as a whole",
        ),
    ],
)
def test_limits_follow_the_formula(pod: Pod, expected: dict[str, int]) -> None:
    """Limits add up as requests do."""
    assert pod_limits(pod) == expected


def test_a_container_requests_the_largest_of_a_resize() -> None:
    """Wanted, set aside and effective amounts count as in the sum; an init container that ends is not resized."""
    grown = ContainerStatus(name="c", resources=requirements(cpu="2"), allocated_resources={"cpu": "3"})
    main, init = container(cpu="1", memory="1Gi"), container("i", cpu="4")
    ended = ContainerStatus(name="i", resources=requirements(cpu="9"))
    status = PodStatus(container_statuses=(grown,), init_container_statuses=(ended,))
    pod = Pod(spec=PodSpec(containers=(main,), init_containers=(init,)), status=status)
    assert container_requests(pod, main) == {"cpu": 3000, "memory": 1024 * MI}
    assert container_requests(pod, init) == {"cpu": 4000}


def test_amounts_of_a_list_have_the_units_of_requests() -> None:
    """CPU in thousandths, the others in units; a malformed amount is an error."""
    assert amounts_of({"cpu": "1.5", "memory": "1Mi", "example.com/gpu": 2}) == {
        "cpu": 1500,
        "memory": MI,
        "example.com/gpu": 2,
    }
    with pytest.raises(QuantityError):
        amounts_of({"cpu": "much"})


def limited(requests: dict[str, RawQuantity], limits: dict[str, RawQuantity]) -> Container:
    """Make a container with requests and limits."""
    return Container(name="c", resources=ResourceRequirements(requests=requests, limits=limits))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(PodSpec(containers=(container(),)), "BestEffort", id="nothing"),
        pytest.param(PodSpec(containers=(container(gpu=1),)), "BestEffort", id="other resources"),
        pytest.param(PodSpec(containers=(container(cpu="1"),)), "Burstable", id="requests"),
        pytest.param(
            PodSpec(containers=(limited({"cpu": "1", "memory": 1}, {"cpu": "1000m", "memory": 1}),)),
            "Guaranteed",
            id="equal limits",
        ),
        pytest.param(
            PodSpec(containers=(limited({"cpu": "1", "memory": 1}, {"cpu": "1", "memory": 1}), container("d"))),
            "Burstable",
            id="one container of two",
        ),
        pytest.param(
            PodSpec(
                containers=(container(cpu="1"),),
                resources=ResourceRequirements(requests={"cpu": 1, "memory": 1}, limits={"cpu": 1, "memory": 1}),
            ),
            "Guaranteed",
            id="pod-level",
        ),
    ],
)
def test_quality_of_service(pod: PodSpec, expected: str) -> None:
    """The class is that of the API server, and the one in the status counts if it is there."""
    assert qos_class(Pod(spec=pod)) == expected
    assert qos_class(Pod(spec=pod, status=PodStatus(qos_class="Burstable"))) == "Burstable"
