"""Queue objects of each dialect are read into one form, malformed ones included."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.api import decode
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_batch.model.queue_spec import QueueSpec, QueueState
from tests.batch.random_json import JSON

ROWS = {dialect.name: dialect for dialect in QUEUE_DIALECTS}
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def queue_of(
    dialect: str,
    spec: Any = None,
    *,
    status: Any = None,
    name: str = "team-a",
    annotations: dict[str, str] | None = None,
    kind: int = 0,
) -> QueueSpec:
    """Read a queue object of a dialect; `spec` and `status` in wire form."""
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": "1970-01-01T00:01:00Z",
        "annotations": annotations or {},
    }
    manifest = {"metadata": metadata, "spec": spec, "status": status}
    return ROWS[dialect].read(decode(ROWS[dialect].kinds[kind].type, msgspec.json.encode(manifest)))


def kai(resources: dict[str, Any], **spec: Any) -> QueueSpec:
    """Read a queue of KAI; resources not named are unlimited."""
    return queue_of("kai", {"resources": {**dict.fromkeys(("cpu", "memory", "gpu"), UNLIMITED), **resources}, **spec})


def test_kai_queue_is_read_in_its_units() -> None:
    """Processors are millicores, memory is megabytes of 10**6 bytes, GPUs may be fractions; -1 is unlimited."""
    said = kai(
        {
            "cpu": {"quota": 1500, "limit": 3000, "overQuotaWeight": 2},
            "memory": {"quota": 512, "limit": -1, "overQuotaWeight": 0},
            "gpu": {"quota": 0.5, "limit": 4, "overQuotaWeight": 1.5},
        },
        parentQueue="department",
        displayName="Team A",
        priority=200,
        preemptMinRuntime="10m",
        reclaimMinRuntime="1h30m",
    )
    assert said == QueueSpec(
        name="team-a",
        uid="uid-team-a",
        dialect="kai",
        parent="department",
        display_name="Team A",
        created=60.0,
        priority=200,
        quota={"cpu": 1500, "memory": 512e6, "nvidia.com/gpu": 0.5},
        limit={"cpu": 3000, "memory": math.inf, "nvidia.com/gpu": 4},
        over_quota_weight={"cpu": 2, "memory": 0, "nvidia.com/gpu": 1.5},
        preempt_min_runtime=600.0,
        reclaim_min_runtime=5400.0,
    )


def test_kai_queue_has_priority_100_by_default_and_no_runtime() -> None:
    """A queue without a priority has 100; without min-runtimes, the parent's count."""
    said = kai({})
    assert (said.priority, said.preempt_min_runtime, said.reclaim_min_runtime) == (100, None, None)
    assert said.warnings == ()


@pytest.mark.parametrize(
    ("resources", "warning"),
    [
        pytest.param(
            {"gpu": {"quota": 1, "overQuotaWeight": 1}},
            "spec.resources.gpu.limit is not set, which means 0: no job of this queue may use gpu",
            id="limit",
        ),
        pytest.param(
            {"cpu": {"limit": -1, "overQuotaWeight": 1}},
            "spec.resources.cpu.quota is not set, which means 0: all cpu of this queue can be reclaimed",
            id="quota",
        ),
        pytest.param(
            {"memory": {"limit": -1, "quota": 1}},
            "spec.resources.memory.overQuotaWeight is not set, which means 0: "
            "this queue has no share of memory beyond its quota",
            id="weight",
        ),
        pytest.param(
            {"gpu": None},
            "spec.resources.gpu is not set, which means 0: no job of this queue may use gpu",
            id="resource",
        ),
    ],
)
def test_unset_field_of_a_kai_queue_is_0_with_a_warning(resources: dict[str, Any], warning: str) -> None:
    """Unset is 0 as in KAI, and the user learns what that means."""
    assert kai(resources).warnings == (warning,)


def test_kai_queue_without_resources_may_use_nothing() -> None:
    """One warning covers all resources."""
    said = queue_of("kai", {})
    assert said.limit == {"cpu": 0, "memory": 0, "nvidia.com/gpu": 0}
    assert said.warnings == (
        "spec.resources is not set, which means 0: no job of this queue may use cpu, memory or gpu",
    )


@pytest.mark.parametrize("value", [-2, -0.5, "4", "many", True, [], {}, 1e30, 10**400], ids=repr)
@pytest.mark.parametrize("field", ["quota", "limit"])
def test_unusable_amount_of_a_kai_queue_grants_nothing(field: str, value: Any) -> None:
    """A mistake counts as 0, and the warning names field and value."""
    said = kai({"gpu": {**UNLIMITED, field: value}})
    assert getattr(said, field)["nvidia.com/gpu"] == 0
    (warning,) = said.warnings
    assert warning.startswith(f"spec.resources.gpu.{field}: ")
    assert warning.endswith("is neither a number of 0 or more nor -1, which means unlimited; 0 counts")


def test_volcano_queue_is_read_in_its_units() -> None:
    """Amounts are quantities; unnamed resources stay unnamed."""
    said = queue_of(
        "volcano",
        {
            "weight": 3,
            "priority": 7,
            "parent": "dept",
            "deserved": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2},
            "capability": {"cpu": 4},
            "guarantee": {"resource": {"nvidia.com/gpu": "500m"}},
            "reclaimable": False,
            "affinity": {"nodeGroupAffinity": {}},
        },
        status={"state": "Closing"},
        annotations={"volcano.sh/hierarchy": "root/sci", "volcano.sh/hierarchy-weights": "1/2"},
    )
    assert said == QueueSpec(
        name="team-a",
        uid="uid-team-a",
        dialect="volcano",
        parent="dept",
        created=60.0,
        priority=7,
        weight=3,
        quota={"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2},
        limit={"cpu": 4000},
        guarantee={"nvidia.com/gpu": 0.5},
        reclaimable=False,
        state=QueueState.CLOSING,
        hierarchy="root/sci",
        hierarchy_weights="1/2",
        affinity={"nodeGroupAffinity": {}},
    )


def test_volcano_queue_has_the_defaults_of_its_system() -> None:
    """Weight 1, priority 0, below root, reclaimable and open."""
    said = queue_of("volcano", {})
    assert said == QueueSpec(name="team-a", uid="uid-team-a", dialect="volcano", parent="root", created=60.0)


def test_volcano_root_queue_is_at_the_top() -> None:
    """The queue `root` has no parent, whatever it names."""
    assert queue_of("volcano", {"parent": "root"}, name="root").parent == ""


@pytest.mark.parametrize(
    ("weight", "counts"),
    [(0, 1), (-4, 1), (70000, 65535), (65535, 65535), ("heavy", 1), (2.5, 1), (10**30, 65535)],
)
@pytest.mark.parametrize("dialect", ["volcano", "kube-batch"])
def test_weight_out_of_range_counts_as_the_nearest_bound(dialect: str, weight: Any, counts: int) -> None:
    """A weight is an integer from 1 to 65535."""
    said = queue_of(dialect, {"weight": weight})
    assert said.weight == counts
    assert bool(said.warnings) == (weight != counts)


@pytest.mark.parametrize("kind", [0, 1])
def test_kube_batch_queue_of_both_versions(kind: int) -> None:
    """A queue of kube-batch has a weight and a capability, and no parent."""
    said = queue_of("kube-batch", {"weight": 2, "capability": {"cpu": "2"}, "parent": "x"}, kind=kind)
    assert (said.weight, said.limit, said.parent, said.dialect) == (2, {"cpu": 2000}, "", "kube-batch")


def test_bad_quantities_of_a_volcano_queue_count_as_not_set() -> None:
    """Each bad quantity has its own warning."""
    said = queue_of("volcano", {"deserved": {"cpu": "-1", "memory": "lots", "pods": None, "nvidia.com/gpu": 1}})
    assert said.quota == {"nvidia.com/gpu": 1}
    assert said.warnings == (
        "spec.deserved.cpu: '-1' is not a quantity of 0 or more; it counts as not set",
        "spec.deserved.memory: 'lots' is not a quantity of 0 or more; it counts as not set",
        "spec.deserved.pods: None is not a quantity of 0 or more; it counts as not set",
    )


def test_unknown_state_of_a_volcano_queue_counts_as_unknown() -> None:
    """A state that Volcano does not have is Unknown, with a warning."""
    said = queue_of("volcano", {}, status={"state": "Ajar"})
    assert said.state is QueueState.UNKNOWN
    assert len(said.warnings) == 1


FIELDS = (
    *("parentQueue", "displayName", "priority", "resources", "preemptMinRuntime", "reclaimMinRuntime"),
    *("weight", "capability", "deserved", "guarantee", "reclaimable", "parent", "affinity"),
)
AMOUNT = st.fixed_dictionaries({}, optional=dict.fromkeys(("quota", "limit", "overQuotaWeight"), JSON))
RESOURCES = st.fixed_dictionaries({}, optional=dict.fromkeys(("cpu", "memory", "gpu"), AMOUNT | JSON))
SPEC = JSON | st.fixed_dictionaries(
    {}, optional={name: RESOURCES | JSON if name == "resources" else JSON for name in FIELDS}
)


@settings(deadline=None)
@given(dialect=st.sampled_from(sorted(ROWS)), spec=SPEC, status=JSON)
def test_readers_never_raise_and_return_usable_amounts(dialect: str, spec: Any, status: Any) -> None:
    """Whatever an object says, all amounts are at least 0 and each bad value has a sentence."""
    read = ROWS[dialect].read
    said = read(ROWS[dialect].kinds[0].type(spec=spec, status=status))
    for amounts in (said.quota, said.limit, said.guarantee, said.over_quota_weight):
        assert all(amount >= 0 for amount in amounts.values())
    assert 1 <= said.weight <= 65535
    assert math.isfinite(said.priority)
    assert all(isinstance(warning, str) and warning for warning in said.warnings)
    if not isinstance(spec, dict) and spec is not None:
        assert said.warnings
