"""Changes after which a pod that DynamicResources rejected is retried."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import Pod, ResourceClaim, decode
from pyscheduler.framework import QueueingHint
from pyscheduler.plugins.dynamic_resources.claims import ClaimError, find_claims
from pyscheduler.plugins.dynamic_resources.hints import Hints
from pyscheduler.testing import make_pod
from tests.plugins.devices import allocation, claim, using

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}


def read(name: str = "c", *, status: Any = None, **metadata: Any) -> ResourceClaim:
    """Return a claim as the scheduler reads it; its uid is its name."""
    manifest = {**claim(name, metadata={"uid": name, **metadata}), "status": status or {}}
    return decode(ResourceClaim, msgspec.json.encode(manifest))


def hints(*claims: ResourceClaim) -> Hints:
    """Return the hints where there are these claims."""
    known = {(each.name, each.namespace): each for each in claims}
    return Hints(lambda name, namespace: known.get((name, namespace)), lambda _pod: False)


GIVEN = {"allocation": allocation("gpu-0")}
MINE, OTHER = read("c"), read("d")


@pytest.mark.parametrize(
    ("old", "new", "there", "expected"),
    [
        pytest.param(None, MINE, [MINE], QUEUE, id="the pod's claim comes"),
        pytest.param(None, OTHER, [MINE, OTHER], SKIP, id="another claim comes"),
        pytest.param(None, OTHER, [OTHER], SKIP, id="the pod's claim is still missing"),
        pytest.param(MINE, read(finalizers=["x"]), [MINE], SKIP, id="a finalizer"),
        pytest.param(MINE, read(status=GIVEN), [MINE], QUEUE, id="the pod's claim is allocated"),
        pytest.param(OTHER, read("d", status=GIVEN), [MINE], SKIP, id="another claim is allocated"),
        pytest.param(read("d", status=GIVEN), OTHER, [MINE], QUEUE, id="another claim gives back"),
        pytest.param(read("d", status=GIVEN), OTHER, [], SKIP, id="that helps nobody whose claim is missing"),
    ],
)
def test_after_a_claim_changed(
    old: ResourceClaim | None, new: ResourceClaim, there: list[ResourceClaim], expected: QueueingHint
) -> None:
    """Claims of the pod count, and devices that become free."""
    assert hints(*there).after_claim_change(make_pod("p", spec=using("c")), old, new) is expected


def test_after_a_pod_changed() -> None:
    """It is its own change that counts, once all of its claims are there."""
    pod = make_pod("p", spec=using("c"))
    assert hints(MINE).after_pod_change(pod, pod, pod) is QUEUE
    assert hints().after_pod_change(pod, pod, pod) is SKIP
    assert hints(MINE).after_pod_change(pod, pod, make_pod("other", spec=using("c"))) is SKIP


def templated(**status: Any) -> Pod:
    """Return a pod with a claim from a template."""
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    return make_pod("p", spec=spec, status={"resourceClaimStatuses": [{"name": "gpu", **status}]} if status else {})


@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(make_pod("p", spec=using("c")), [MINE], ["c"], id="named"),
        pytest.param(make_pod("p", spec=using("c", "d")), [MINE, OTHER], ["c", "d"], id="two"),
        pytest.param(
            make_pod("p", spec=using("c")), [], 'could not find ResourceClaim "default/c"', id="named and missing"
        ),
        pytest.param(
            make_pod("p", spec=using("c")),
            [read(deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "c" is being deleted',
            id="being deleted",
        ),
        pytest.param(templated(), [MINE], 'pod "default/p": ResourceClaim not created yet', id="not made yet"),
        pytest.param(templated(resourceClaimName=None), [], [], id="not needed"),
        pytest.param(
            templated(resourceClaimName="c"),
            [MINE],
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
            id="not its own",
        ),
        pytest.param(
            templated(resourceClaimName="c"),
            [read(ownerReferences=[{**OWNER, "uid": templated().uid}])],
            ["c"],
            id="its own",
        ),
        pytest.param(
            make_pod("p", spec={"resourceClaims": [{"name": "gpu"}]}),
            [],
            'pod "default/p", spec.resourceClaim "gpu": none of the supported fields are set',
            id="a way not known",
        ),
    ],
)
def test_claims_of_a_pod(pod: Pod, there: list[ResourceClaim], expected: list[str] | str) -> None:
    """They are found by name, or by what the pod's status says was made; what is wrong is said in upstream's words."""
    find = hints(*there).find
    if isinstance(expected, str):
        with pytest.raises(ClaimError) as caught:
            find_claims(pod, find)
        assert str(caught.value) == expected
    else:
        assert [each.name for each in find_claims(pod, find)] == expected
