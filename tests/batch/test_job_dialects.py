"""PodGroups and pods of each dialect are read into one form, malformed ones included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kube_objects.selectors import selector_from_labels
from pyscheduler.api import format_time
from pyscheduler.podgroup import DIALECTS
from pyscheduler.podgroup.sub_groups import ByPolicy, Policy
from pyscheduler.podgroup.wire import GroupStatus, PodGroupSpec
from pyscheduler.testing import make_pod
from pyscheduler_batch.dialects import JOB_DIALECTS
from pyscheduler_batch.model.job_spec import JobSpec, SubGroupSpec
from pyscheduler_kai.objects import kai_last_start
from tests.batch.random_json import JSON
from tests.podgroup.builders import make_group

ROWS = {dialect.name: dialect for dialect in JOB_DIALECTS}


def read_job(dialect: str, group: Any) -> JobSpec:
    """Return what the object of a group says."""
    fields = ROWS[dialect].groups.object_fields
    assert fields is not None
    return ROWS[dialect].read(group, fields(group))


def job_of(dialect: str, *, annotations: dict[str, str] | None = None, kind: int = 0, **spec: Any) -> JobSpec:
    """Read a group object of a dialect; `spec` in wire form."""
    group = make_group(
        "train", dialect=dialect, kind=kind, created="1970-01-01T00:01:00Z", annotations=annotations, **spec
    )
    return read_job(dialect, group)


def test_kai_job_is_read_with_all_its_fields() -> None:
    """Queue, protection, sub-groups, topology and the time stamps of a PodGroup of KAI."""
    job = job_of(
        "kai",
        annotations={
            "kai.scheduler/stale-podgroup-timestamp": "1970-01-01T00:02:00Z",
            "kai.scheduler/last-start-timestamp": "1970-01-01T00:01:30Z",
            "kai.scheduler/last-eviction-timestamp": "1970-01-01T00:01:40Z",
        },
        minMember=3,
        queue="team-a",
        priorityClassName="train",
        preemptibility="non-preemptible",
        minSubGroup=1,
        subGroups=[
            {"name": "all", "minSubGroup": 2},
            {"name": "workers", "parent": "all", "minMember": 2, "topologyConstraint": {"topology": "racks"}},
        ],
        topologyConstraint={"topology": "zones"},
        markUnschedulable=False,
        schedulingBackoff=1,
        stalenessGracePeriod="-1s",
        preemptionDelay="5m",
    )
    assert job == JobSpec(
        namespace="default",
        name="train",
        uid="group-default-train",
        dialect="kai",
        created=60.0,
        queue="team-a",
        min_member=3,
        priority_class_name="train",
        preemptible=False,
        min_sub_group=1,
        sub_groups=(
            SubGroupSpec(name="all", min_member=0, min_sub_group=2),
            SubGroupSpec(name="workers", parent="all", min_member=2, topology={"topology": "racks"}),
        ),
        topology={"topology": "zones"},
        mark_unschedulable=False,
        scheduling_backoff=1,
        staleness_grace=-1.0,
        preemption_delay=300.0,
        stale_since=120.0,
        last_start=90.0,
        last_eviction=100.0,
    )


def test_kai_job_has_the_defaults_of_its_system() -> None:
    """One member, no queue, tried again and again."""
    job = job_of("kai")
    assert (job.min_member, job.queue, job.preemptible, job.scheduling_backoff) == (1, "", None, -1)
    assert (job.staleness_grace, job.preemption_delay, job.stale_since, job.warnings) == (None, None, None, ())


@pytest.mark.parametrize(
    ("sub_groups", "warning"),
    [
        pytest.param(
            [{"name": "a"}, {"name": "a"}],
            "spec.subGroups[1].name: 'a' is empty or the name of an earlier sub-group; rename it",
            id="duplicate",
        ),
        pytest.param(
            [{"minMember": 1}],
            "spec.subGroups[0].name: '' is empty or the name of an earlier sub-group; rename it",
            id="without a name",
        ),
        pytest.param(
            [{"name": "a", "parent": "b"}],
            "parent of sub-group \"a\": 'b' does not exist; add that sub-group or remove the parent",
            id="missing parent",
        ),
        pytest.param(
            [{"name": "a", "parent": "a"}],
            "parent of sub-group \"a\": 'a' closes a cycle; give one of these sub-groups another parent",
            id="cycle",
        ),
        pytest.param(
            [{"name": str(level), "parent": str(level - 1) if level else ""} for level in range(600)],
            "parent of sub-group \"64\": '63' is more than 64 levels below the group; remove levels",
            id="too deep",
        ),
    ],
)
def test_sub_groups_that_make_no_tree_have_a_reason(sub_groups: list[Any], warning: str) -> None:
    """The job is refused with a stable reason, and a sentence names the sub-group."""
    job = job_of("kai", subGroups=sub_groups)
    assert job.error == "InvalidSubGroups"
    assert job.warnings == (warning,)


def test_a_minimum_of_sub_groups_does_not_count_without_any() -> None:
    """It would take the minimum of members from the gang."""
    job = job_of("kai", minMember=2, minSubGroup=0)
    assert (job.min_member, job.min_sub_group) == (2, None)
    assert job.warnings == ("spec.minSubGroup: 0 does not count without spec.subGroups; set spec.minMember",)


def test_every_sub_group_of_a_cycle_is_named() -> None:
    """A cycle of two has two sentences."""
    job = job_of("kai", subGroups=[{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}])
    assert (job.error, len(job.warnings)) == ("InvalidSubGroups", 2)


def test_volcano_job_is_read_with_all_its_fields() -> None:
    """Roles, policies of sub-groups, topology and annotations of a PodGroup of Volcano."""
    job = job_of(
        "volcano",
        annotations={
            "volcano.sh/preemptable": "true",
            "volcano.sh/sla-waiting-time": "1h",
        },
        minMember=4,
        queue="research",
        minTaskMember={"ps": 1, "worker": 3},
        minResources={"cpu": "4"},
        networkTopology={"mode": "hard", "highestTierAllowed": 1},
        subGroupPolicy=[
            {"name": "tp", "subGroupSize": 2, "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["k"]},
            {"name": "dp", "minSubGroups": 1},
        ],
    )
    assert job == JobSpec(
        namespace="default",
        name="train",
        uid="group-default-train",
        dialect="volcano",
        created=60.0,
        queue="research",
        min_member=4,
        preemptible=True,
        min_task_member={"ps": 1, "worker": 3},
        min_resources={"cpu": "4"},
        sub_groups=(
            SubGroupSpec(
                name="tp",
                min_member=2,
                min_sub_group=0,
                selector={"matchLabels": {"a": "b"}},
                match_label_keys=("k",),
            ),
            SubGroupSpec(name="dp", min_sub_group=1),
        ),
        policies=ByPolicy((Policy("tp", selector_from_labels({"a": "b"}), ("k",)), Policy("dp", None, ()))),
        sla_waiting_time=3600.0,
        topology={"mode": "hard", "highestTierAllowed": 1},
    )


@pytest.mark.parametrize(("dialect", "kind"), [("volcano", 0), *(("kube-batch", kind) for kind in range(3))])
def test_job_without_a_queue_is_in_the_default_queue(dialect: str, kind: int) -> None:
    """Volcano and kube-batch put a group that names no queue into `default`."""
    job = job_of(dialect, kind=kind, minMember=2)
    assert (job.queue, job.min_member, job.dialect) == ("default", 2, dialect)


def test_spellings_of_the_proposal_are_read() -> None:
    """`minMembers` and `totalResources` of kube-batch's design document count."""
    job = job_of("kube-batch", kind=1, minMembers=5, totalResources={"cpu": "8"})
    assert (job.min_member, job.min_resources) == (5, {"cpu": "8"})


@pytest.mark.parametrize("dialect", sorted(ROWS))
def test_job_with_an_unusable_minimum_has_a_reason(dialect: str) -> None:
    """A minimum that is no integer holds the job, because placing fewer members would break the gang."""
    job = job_of(dialect, minMember="three")
    assert job.error == "InvalidMinMember"
    assert job.warnings[0].startswith("spec.minMember: 'three' is not an integer")


def test_annotation_that_is_no_boolean_protects() -> None:
    """`volcano.sh/preemptable: never` counts as false, with a warning."""
    job = job_of("volcano", annotations={"volcano.sh/preemptable": "never"}, minMember=1)
    assert job.preemptible is False
    assert job.warnings == ("volcano.sh/preemptable: 'never' is neither true nor false; false counts",)


@pytest.mark.parametrize("key", ["volcano.sh/sla-waiting-time", "sla-waiting-time"])
@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("0s", None), ("-1m", None), ("soon", None)])
def test_waiting_time_is_a_duration_above_0(key: str, text: str, seconds: float | None) -> None:
    """Both keys of Volcano are read; an unusable value counts as not set, with a warning."""
    job = job_of("volcano", annotations={key: text}, minMember=1)
    assert job.sla_waiting_time == seconds
    assert bool(job.warnings) == (seconds is None)


def test_status_is_read_as_it_was_written() -> None:
    """Phase and conditions of the last session reach the job."""
    group = (
        ROWS["volcano"]
        .groups.kinds[0]
        .type(
            spec=PodGroupSpec(min_member=1),
            status=GroupStatus(phase="Inqueue", conditions=[{"type": "Unschedulable"}, "what"]),
        )
    )
    job = read_job("volcano", group)
    assert (job.phase, job.conditions) == ("Inqueue", ({"type": "Unschedulable"},))


def test_rows_extend_the_rows_of_podgroup() -> None:
    """Each row of jobs has the keys and kinds of the row of pod groups with its name."""
    names = {row.name for row in DIALECTS}
    assert {dialect.name for dialect in JOB_DIALECTS} <= names
    assert all(dialect.groups.name == dialect.name for dialect in JOB_DIALECTS)


def test_pods_name_queue_sub_group_and_role_in_the_words_of_their_system() -> None:
    """Labels of KAI, annotations of Volcano, and what a pod without a group declares."""
    kai, volcano, kube_batch = ROWS["kai"], ROWS["volcano"], ROWS["kube-batch"]
    pod = make_pod(
        "p",
        labels={
            "kai.scheduler/queue": "team-a",
            "kai.scheduler/subgroup-name": "workers",
            "kai.scheduler/preemptibility": "non-preemptible",
            "volcano.sh/task-spec": "by-label",
            "volcano.sh/preemptable": "false",
        },
        annotations={
            "scheduling.volcano.sh/queue-name": "research",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/preemptable": "1",
        },
    )
    assert (kai.queue(pod), kai.sub_group(pod), kai.role(pod)) == ("team-a", "workers", "")
    assert kai.preemptible(pod) is False
    assert (volcano.queue(pod), volcano.role(pod), volcano.sub_group(pod)) == ("research", "worker", "")
    assert volcano.preemptible(pod) is True
    assert (kube_batch.queue(pod), kube_batch.preemptible(pod)) == ("", None)


@pytest.mark.parametrize(
    ("labels", "annotations", "answer"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({"volcano.sh/preemptable": "true"}, {}, True, id="label"),
        pytest.param({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "F"}, False, id="annotation first"),
        pytest.param({}, {"volcano.sh/preemptable": "yes"}, False, id="no boolean of Go"),
    ],
)
def test_volcano_pod_is_protected_by_false_or_nonsense(
    labels: dict[str, str], annotations: dict[str, str], answer: bool | None
) -> None:
    """The annotation counts before the label."""
    assert ROWS["volcano"].preemptible(make_pod("p", labels=labels, annotations=annotations)) is answer


SUB_GROUP = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("name", "parent"), st.sampled_from("abc") | JSON),
        **dict.fromkeys(("minMember", "minSubGroup", "topologyConstraint", "subGroupSize", "matchLabelKeys"), JSON),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(SUB_GROUP, max_size=4) | JSON if name.startswith("sub_group") else JSON
        for name in PodGroupSpec.__struct_fields__
    },
)


@settings(deadline=None)
@given(
    dialect=st.sampled_from(sorted(ROWS)),
    spec=SPECS,
    conditions=JSON,
    annotations=st.dictionaries(
        st.sampled_from(
            [
                "volcano.sh/preemptable",
                "volcano.sh/sla-waiting-time",
                "kai.scheduler/stale-podgroup-timestamp",
                "kai.scheduler/last-start-timestamp",
                "kai.scheduler/last-eviction-timestamp",
            ]
        ),
        st.text(max_size=12),
    ),
)
def test_readers_never_raise(dialect: str, spec: Any, conditions: Any, annotations: dict[str, str]) -> None:
    """Whatever a group says, the job has usable minimums, and sub-groups that end at the top unless it has a reason."""
    kind = ROWS[dialect].groups.kinds[0].type
    group = make_group("g", dialect=dialect, annotations=annotations)
    group = kind(metadata=group.metadata, spec=PodGroupSpec(**spec), status=GroupStatus(conditions=conditions))
    job = read_job(dialect, group)
    assert job.min_member >= 0
    assert all(each >= 0 for each in job.min_task_member.values())
    if not job.error:
        parents = {each.name: each.parent for each in job.sub_groups}
        if dialect == "kai":
            assert all(steps_to_the_top(name, parents) <= len(parents) for name in parents)


def test_values_nested_as_deep_as_the_decoder_permits_are_read() -> None:
    """A group whose fields are lists in lists is refused with short sentences, also far down the stack."""
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    kind = ROWS["volcano"].groups.kinds[0].type
    group = kind(
        spec=PodGroupSpec(min_member=deep, queue=deep, min_task_member={"a": deep}, min_resources={"cpu": deep})
    )

    def read_below(frames: int) -> JobSpec:
        return read_below(frames - 1) if frames else read_job("volcano", group)

    job = read_below(200)
    assert job.error == "InvalidMinMember"
    assert len(job.warnings) == 4
    assert max(map(len, job.warnings)) < 160


def steps_to_the_top(name: str, parents: Mapping[str, str]) -> int:
    """Count the sub-groups on the way up, or one more than there are if the way has no end."""
    steps = 0
    while name and steps <= len(parents):
        name, steps = parents[name], steps + 1
    return steps


@pytest.mark.parametrize(
    ("stamp", "bound", "start"),
    [
        pytest.param(None, [], None, id="never started"),
        pytest.param(None, [60], 60, id="a crash before the annotation was written"),
        pytest.param(10.0, [60, 70], 60, id="the annotation is of an earlier start"),
        pytest.param(50.0, [40, 70], 50, id="a pod was replaced"),
        pytest.param(50.0, [], 50, id="no pod is left"),
    ],
)
def test_the_start_of_a_kai_job_is_not_before_its_bindings(
    stamp: float | None, bound: list[int], start: float | None
) -> None:
    """The later one of the annotation and of the first binding among the present pods counts."""
    pods = [
        make_pod(
            f"p-{at}",
            node_name="n1",
            status={"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(at)}]},
        )
        for at in bound
    ]
    waiting = {"type": "PodScheduled", "status": "False", "lastTransitionTime": format_time(5)}
    pods.append(make_pod("waits", status={"conditions": [waiting]}))
    assert kai_last_start(stamp, pods) == start
