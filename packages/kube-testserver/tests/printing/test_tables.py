"""Tables: what `kubectl get` prints."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.printing.columns import human_duration
from kube_testserver.printing.tables import make_table
from kube_testserver.resources.builtin import BUILTIN_RESOURCES
from kube_testserver.resources.table import Resource

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:59:00Z"  # a minute before


def resource(plural: str, group: str = "") -> Resource:
    """Return a built-in resource."""
    return next(one for one in BUILTIN_RESOURCES if (one.plural, one.group) == (plural, group))


def cells(plural: str, obj: dict[str, Any], group: str = "") -> dict[str, Any]:
    """Return the cells of an object by column."""
    metadata = {"name": "x", "creationTimestamp": CREATED, **obj.pop("metadata", {})}
    table = make_table(resource(plural, group), [{"metadata": metadata, **obj}], {}, now=NOW)
    columns = [column["name"] for column in table["columnDefinitions"]]
    [row] = table["rows"]
    assert len(row["cells"]) == len(columns)
    return dict(zip(columns, row["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (179, "2m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_000, "3h3m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (315_360_000, "10y"),
    ],
)
def test_ages_read_like_those_of_kubectl(seconds: float, text: str) -> None:
    """Few digits, in the units that fit."""
    assert human_duration(seconds) == text


def state(**kind: Any) -> dict[str, Any]:
    """Return a container status in some state."""
    return {"state": kind}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"status": {"phase": "Pending"}}, "Pending", id="phase"),
        pytest.param({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted", id="reason"),
        pytest.param(
            {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            "SchedulingGated",
            id="gated",
        ),
        pytest.param({"metadata": {"deletionTimestamp": CREATED}}, "Terminating", id="going"),
        pytest.param(
            {"metadata": {"deletionTimestamp": CREATED}, "status": {"reason": "NodeLost"}}, "Unknown", id="lost"
        ),
        pytest.param(
            {"status": {"containerStatuses": [state(waiting={"reason": "ImagePullBackOff"})]}},
            "ImagePullBackOff",
            id="waiting",
        ),
        pytest.param({"status": {"containerStatuses": [state(terminated={"reason": "Error"})]}}, "Error", id="ended"),
        pytest.param({"status": {"containerStatuses": [state(terminated={"signal": 9})]}}, "Signal:9", id="killed"),
        pytest.param({"status": {"containerStatuses": [state(terminated={"exitCode": 3})]}}, "ExitCode:3", id="exit"),
        pytest.param(
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [
                        state(terminated={"reason": "Completed"}),
                        {"ready": True, **state(running={})},
                    ],
                }
            },
            "Running",
            id="one done, one running",
        ),
        pytest.param(
            {
                "status": {
                    "containerStatuses": [
                        state(terminated={"reason": "Completed"}),
                        {"ready": True, **state(running={})},
                    ],
                }
            },
            "NotReady",
            id="running and not ready",
        ),
        pytest.param(
            {
                "spec": {"initContainers": [{}, {}]},
                "status": {"initContainerStatuses": [state(terminated={"exitCode": 0}), state(running={})]},
            },
            "Init:1/2",
            id="initializing",
        ),
        pytest.param(
            {"status": {"initContainerStatuses": [state(terminated={"exitCode": 1, "reason": "Error"})]}},
            "Init:Error",
            id="failed to initialize",
        ),
        pytest.param(
            {"status": {"initContainerStatuses": [state(waiting={"reason": "CrashLoopBackOff"})]}},
            "Init:CrashLoopBackOff",
            id="initialization waits",
        ),
    ],
)
def test_the_state_of_a_pod_in_one_word(pod: dict[str, Any], expected: str) -> None:
    """The most telling word wins."""
    assert cells("pods", pod)["Status"] == expected


def test_the_row_of_a_running_pod() -> None:
    """Ready containers of all, restarts with the time of the last, and where it runs."""
    ended = {"terminated": {"finishedAt": "2027-01-15T07:58:00Z"}}
    statuses = [
        {"ready": True, "restartCount": 2, "lastState": ended, **state(running={})},
        {"ready": False, "restartCount": 1, **state(running={})},
    ]
    pod = {
        "spec": {"nodeName": "n", "containers": [{}, {}], "readinessGates": [{"conditionType": "a"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": statuses},
    }
    assert cells("pods", pod) == {
        "Name": "x",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "3 (2m ago)",
        "Age": "60s",
        "IP": "10.0.0.1",
        "Node": "n",
        "Nominated Node": "<none>",
        "Readiness Gates": "0/1",
    }


def test_restarts_at_a_time_nobody_can_read() -> None:
    """A malformed time does not break the row."""
    ended = {"terminated": {"finishedAt": "yesterday"}}
    pod = {"status": {"containerStatuses": [{"restartCount": 1, "lastState": ended}]}}
    assert cells("pods", pod)["Restarts"] == "1 (<unknown> ago)"


@pytest.mark.parametrize(
    ("node", "status", "roles"),
    [
        pytest.param({}, "Unknown", "<none>", id="nothing known"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready", "<none>", id="ready"),
        pytest.param(
            {
                "metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            },
            "NotReady,SchedulingDisabled",
            "a,b",
            id="cordoned",
        ),
    ],
)
def test_the_row_of_a_node(node: dict[str, Any], status: str, roles: str) -> None:
    """Whether it is ready, whether it takes pods, and what it is for."""
    row = cells("nodes", node)
    assert (row["Status"], row["Roles"]) == (status, roles)
    assert row["Internal-IP"] == "<none>"
    assert row["OS-Image"] == "<unknown>"


def test_the_wide_row_of_a_node() -> None:
    """Addresses and versions."""
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "10.0.0.2"}]
    info = {"kubeletVersion": "v1.36.0", "osImage": "Linux"}
    row = cells("nodes", {"status": {"addresses": addresses, "nodeInfo": info}})
    assert (row["Internal-IP"], row["Version"], row["OS-Image"]) == ("10.0.0.1", "v1.36.0", "Linux")


@pytest.mark.parametrize(
    ("event", "last", "source", "count"),
    [
        pytest.param(
            {
                "firstTimestamp": CREATED,
                "lastTimestamp": "2027-01-15T07:59:30Z",
                "count": 4,
                "source": {"component": "kubelet", "host": "n"},
                "involvedObject": {"kind": "Pod", "name": "p"},
                "message": "m",
            },
            "30s",
            "kubelet, n",
            4,
            id="core",
        ),
        pytest.param(
            {
                "eventTime": CREATED,
                "series": {"count": 9, "lastObservedTime": "2027-01-15T07:59:50Z"},
                "reportingController": "pyscheduler",
                "regarding": {"kind": "Pod", "name": "p"},
                "note": "m",
            },
            "10s",
            "pyscheduler",
            9,
            id="newer",
        ),
        pytest.param(
            {"involvedObject": {"kind": "Pod", "name": "p"}, "message": "m"}, "<unknown>", "", 1, id="no times"
        ),
    ],
)
def test_the_row_of_an_event(event: dict[str, Any], last: str, source: str, count: int) -> None:
    """When it was last seen, about what, from whom, and how often, in either view."""
    row = cells("events", event)
    assert (row["Last Seen"], row["Source"], row["Count"]) == (last, source, count)
    assert (row["Object"], row["Message"]) == ("pod/p", "m")


@pytest.mark.parametrize(
    ("plural", "group", "obj", "expected"),
    [
        pytest.param("namespaces", "", {"status": {"phase": "Active"}}, {"Status": "Active"}, id="namespace"),
        pytest.param("leases", "coordination.k8s.io", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}, id="lease"),
        pytest.param(
            "priorityclasses",
            "scheduling.k8s.io",
            {"value": 5, "globalDefault": True},
            {"Value": 5, "Global-Default": True},
            id="priority class",
        ),
        pytest.param(
            "poddisruptionbudgets",
            "policy",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
            {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 2},
            id="budget",
        ),
        pytest.param("customresourcedefinitions", "apiextensions.k8s.io", {}, {"Created At": CREATED}, id="definition"),
        pytest.param("services", "", {}, {"Name": "x", "Age": "60s"}, id="anything else"),
    ],
)
def test_rows_of_other_kinds(plural: str, group: str, obj: Any, expected: dict[str, Any]) -> None:
    """Each kind shows what matters of it."""
    assert expected.items() <= cells(plural, obj, group).items()


def test_objects_without_a_readable_time() -> None:
    """No time, and a time nobody can read, are unknown."""
    for created in (None, "soon"):
        assert cells("services", {"metadata": {"creationTimestamp": created}})["Age"] == "<unknown>"
