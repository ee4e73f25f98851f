"""Whom pods without constraints are spread among: what their services and owners select."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
)
from pyscheduler.plugins.pod_topology_spread.default_constraints import SYSTEM_CONSTRAINTS, DefaultConstraints
from tests.plugins.pod_topology_spread.spreading import HOST, ZONE
from tests.plugins.reading_handle import ReadingHandle

LABELS = {"app": "a", "tier": "web", "hash": "1"}


def named(name: str, namespace: str = "default") -> ObjectMeta:
    """Name an object."""
    return ObjectMeta(name=name, namespace=namespace)


def service(name: str, namespace: str = "default", **selector: str) -> Service:
    """Make a service."""
    return Service(metadata=named(name, namespace), spec=ServiceSpec(selector=selector))


def owned(kind: str = "", api_version: str = "apps/v1", name: str = "owner", *, controller: bool = True) -> Pod:
    """Make a pod, owned by something unless `kind` is empty."""
    owner = OwnerReference(api_version=api_version, kind=kind, name=name, controller=controller)
    metadata = ObjectMeta(name="p", namespace="default", labels=LABELS, owner_references=(owner,) if kind else ())
    return Pod(metadata=metadata, spec=PodSpec())


def selector_of(pod: Pod, *owners: Any) -> str:
    """Return the selector of the pod's default constraints, "" where it has none."""
    found = DefaultConstraints(SYSTEM_CONSTRAINTS, ReadingHandle(None, owners)).of(pod, "ScheduleAnyway")
    assert len(found) in {0, 2}
    return str(found[0].selector) if found else ""


HASHED = LabelSelector(match_labels={"hash": "1"})
STRANGE = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Perhaps"),))
REPLICA_SET = ReplicaSet(metadata=named("owner"), spec=ReplicaSetSpec(selector=HASHED))
STATEFUL_SET = StatefulSet(metadata=named("owner"), spec=StatefulSetSpec(selector=HASHED))
CONTROLLER = ReplicationController(metadata=named("owner"), spec=ReplicationControllerSpec(selector={"hash": "1"}))
WEB = service("web", tier="web")


@pytest.mark.parametrize(
    ("pod", "owners", "expected"),
    [
        pytest.param(owned(), [], "", id="nobody"),
        pytest.param(owned(), [WEB], "tier=web", id="a service"),
        pytest.param(owned(), [WEB, service("all", app="a")], "app=a,tier=web", id="two services"),
        pytest.param(owned(), [service("other", app="b")], "", id="a service of other pods"),
        pytest.param(owned(), [service("partly", app="a", tier="db")], "", id="a service that fits in part"),
        pytest.param(owned(), [service("web", "other", tier="web")], "", id="a service of another namespace"),
        pytest.param(owned(), [service("none")], "", id="a service without selector"),
        pytest.param(owned("ReplicaSet"), [REPLICA_SET], "hash=1", id="replica set"),
        pytest.param(owned("StatefulSet"), [STATEFUL_SET], "hash=1", id="stateful set"),
        pytest.param(owned("ReplicationController", "v1"), [CONTROLLER], "hash=1", id="replication controller"),
        pytest.param(owned("ReplicaSet"), [REPLICA_SET, WEB], "hash=1,tier=web", id="replica set and service"),
        pytest.param(owned("ReplicationController", "v1"), [CONTROLLER, WEB], "hash=1,tier=web", id="both, again"),
        pytest.param(owned("ReplicaSet", controller=False), [REPLICA_SET], "", id="an owner that does not control"),
        pytest.param(owned("ReplicaSet", "apps/v1beta1"), [REPLICA_SET], "", id="another version"),
        pytest.param(owned("ReplicationController"), [CONTROLLER], "", id="another group"),
        pytest.param(owned("Job", "batch/v1"), [], "", id="an owner of another kind"),
        pytest.param(owned("ReplicaSet", name="gone"), [REPLICA_SET, WEB], "tier=web", id="an owner that is gone"),
        pytest.param(
            owned("ReplicaSet"),
            [ReplicaSet(metadata=named("owner"), spec=ReplicaSetSpec(selector=STRANGE)), WEB],
            "tier=web",
            id="an owner's selector that does not parse",
        ),
        pytest.param(
            owned("ReplicaSet"), [ReplicaSet(metadata=named("owner")), WEB], "tier=web", id="an owner without selector"
        ),
    ],
)
def test_selectors_come_from_services_and_owners(pod: Pod, owners: list[Any], expected: str) -> None:
    """All services that select the pod, and the owner that controls it, say which pods belong together."""
    assert selector_of(pod, *owners) == expected


def test_the_systems_constraints_prefer() -> None:
    """Hosts by 3 and zones by 5; they forbid nothing."""
    defaults = DefaultConstraints(SYSTEM_CONSTRAINTS, ReadingHandle(None, [WEB]))
    found = defaults.of(owned(), "ScheduleAnyway")
    assert [(each.topology_key, each.max_skew) for each in found] == [(HOST, 3), (ZONE, 5)]
    assert defaults.of(owned(), "DoNotSchedule") == ()


def test_services_are_followed() -> None:
    """One that comes, selects others, or goes is known at once."""
    handle = ReadingHandle()
    defaults, services = DefaultConstraints(SYSTEM_CONSTRAINTS, handle), handle.lister(Service)

    def selectors() -> set[str]:
        return {str(each.selector) for each in defaults.of(owned(), "ScheduleAnyway")}

    assert selectors() == set()
    services.put(WEB)
    services.put(service("all", app="a"))
    assert selectors() == {"app=a,tier=web"}
    services.put(service("web", tier="db"))
    assert selectors() == {"app=a"}
    services.put(service("web"))
    services.put(service("web", hash="1"))
    assert selectors() == {"app=a,hash=1"}
    services.drop("web")
    services.drop("all")
    assert selectors() == set()
    assert not defaults._services._by_label
