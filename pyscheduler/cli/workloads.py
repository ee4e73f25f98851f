"""Explain a workload, such as a Deployment: why its pods could not be created, or why one of its pods waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from kube_objects.kinds import BUILT_IN_KINDS
from kube_objects.meta import Wire
from kube_objects.times import seconds_of
from kube_objects.workloads import WorkloadStatus
from pyscheduler.api import KubeObject, ReplicaSet, ReplicationController, StatefulSet, kind_of
from pyscheduler.cli.explanation import HOLDS, INFO, OK, Answer, Explanation, Step
from pyscheduler.cli.podgroup.reader import CORE_EVENTS, CoreEvent
from pyscheduler.cluster.kinds_within import within
from pyscheduler.framework.errors import ConfigError
from pyscheduler.podgroup.membership import created_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cluster.object_sources import Read

__all__ = [
    "Waiting",
    "Workload",
    "find_workload",
    "is_other_kind",
    "kind_called",
    "refused_kinds",
    "subject_of",
    "waiting_pod",
]

_FAILED_CREATE: Final = "FailedCreate"
_SUSPENDED: Final = "Suspended"
_REPLICA_FAILURE: Final = "ReplicaFailure"
_NEXT: Final = "the controller tries again, with growing delays; change the template of the pods, or what refuses them"
#: How many names a step lists.
_NAMED: Final = 5


class _Spec(Wire):
    """The fields of a spec that decide how many pods the workload has."""

    replicas: int | None = None
    parallelism: int | None = None
    suspend: bool | None = None
    schedule: str = ""


class _Controller(KubeObject):
    """A workload of a kind that the scheduler does not read."""

    spec: _Spec = _Spec()
    status: WorkloadStatus = WorkloadStatus()


class _Deployment(_Controller):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"


class _DaemonSetStatus(WorkloadStatus):
    """Also the number of nodes that are to run a pod."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0


class _DaemonSet(_Controller):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"

    status: _DaemonSetStatus = _DaemonSetStatus()


class _Job(_Controller):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"


class _CronJob(_Controller):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "CronJob"


#: The kinds that are read, and what kubectl calls them besides the kind and its plural.
_KINDS: Final[dict[ResourceKind, tuple[str, ...]]] = {
    kind_of(_Deployment, "deployments"): ("deploy",),
    kind_of(ReplicaSet, "replicasets"): ("rs",),
    kind_of(StatefulSet, "statefulsets"): ("sts",),
    kind_of(_DaemonSet, "daemonsets"): ("ds",),
    kind_of(_Job, "jobs"): (),
    kind_of(_CronJob, "cronjobs"): ("cj",),
    kind_of(ReplicationController, "replicationcontrollers"): ("rc",),
}


def kind_called(word: str) -> str:
    """Return the kind of workload that kubectl calls so, such as `Deployment` for `deploy`; "" for another word.

    The word may have the group, such as `deployments.apps`.
    """
    name, _, group = word.lower().partition(".")
    for kind, names in _KINDS.items():
        if name in {kind.kind.lower(), kind.plural, *names} and group in {
            "",
            kind.group,
            f"{kind.version}.{kind.group}",
        }:
            return kind.kind
    return ""


def is_other_kind(word: str) -> bool:
    """Return True if a word is a kind or a plural of an object that is neither a pod nor a workload."""
    return any(word.lower() in {kind.kind.lower(), kind.plural} for kind in BUILT_IN_KINDS)


def subject_of(argument: str, options: ExplainOptions) -> tuple[str, str, str]:
    """Return the kind of workload, namespace and name that an argument gives; the kind is "" if it gives none.

    The namespace may stand before the kind or after it. Raises `ConfigError` if the argument gives no name.
    """
    *places, name = argument.split("/")
    kind = next(filter(None, map(kind_called, places)), "")
    rest = [place for place in places if kind_called(place) != kind] if kind else places
    return kind, *options.key_of("/".join([*rest, name]))


def refused_kinds(unread: Iterable[str], kind: str = "") -> list[str]:
    """Return the plurals of the workloads, of one kind or of all, that are among those that may not be listed."""
    return [each.plural for each in _KINDS if each.resource in unread and kind in {"", each.kind}]


@attrs.frozen(kw_only=True)
class Workload:
    """A workload that was asked about."""

    kind: str
    #: `namespace/name`.
    key: str
    #: Why pods of it could not be created; None if nothing says so.
    failure: Explanation | None
    #: The workload first, then those that it owns, the newest first.
    owned: Sequence[KubeObject]
    #: The pods that it owns, or a workload that it owns.
    pods: Sequence[Pod]


@attrs.frozen
class Waiting:
    """A pod of a workload that waits, and why other pods of the workload could not be created."""

    pod: Pod
    #: None if all pods were created.
    failure: Explanation | None = None

    def joined(self, answer: Answer) -> Answer:
        """Return the answer about the pod, after the steps of the pods that could not be created."""
        failure, own = self.failure, answer.explanation
        if failure is None or own is None:
            return answer
        explanation = attrs.evolve(
            own,
            subject=f"{failure.subject}; {own.subject}",
            verdict=failure.verdict,
            reason=failure.reason,
            steps=[*failure.steps, *own.steps],
            next=f"{failure.next}; of {self.pod.key}: {own.next}",
        )
        return attrs.evolve(answer, explanation=explanation)


@attrs.frozen
class _Name:
    """The kind and the name of a workload; in one namespace, this names one object."""

    kind: str
    name: str


async def waiting_pod(
    kind: str, name: str, namespace: str, read: Read, pods: Iterable[Pod], *, unread: Sequence[str], notes: list[str]
) -> Answer | Waiting | None:
    """Return the first pod of a workload that waits, or why none could be created; None without the workload.

    If all its pods have a node, or it is to have none, the explanation says so. `unread` has the resources that `read`
    was not allowed to list. Raises `ConfigError` if workloads of the kind may not be listed, or if nothing says why the
    workload has no pod. The first arguments are those of `find_workload`.
    """
    found = await find_workload(kind, name, namespace, read, pods)
    if found is None:
        if kind and (refused := refused_kinds(unread, kind)):
            raise ConfigError(
                f"{kind} {namespace}/{name} cannot be read: forbidden: these credentials may not list {refused[0]} in "
                f"the namespace {namespace}; the role view in the namespace permits it"
            )
        return None
    waiting = [pod for pod in found.pods if not pod.node_name]
    if found.failure is not None and not waiting:
        return Answer(explanation=found.failure)
    if not waiting and not found.pods:
        return Answer(explanation=_without_pods(found))
    if not waiting:
        text = f"no pod waits; {len(found.pods)} {'has' if len(found.pods) == 1 else 'have'} a node"
        steps, subject = [Step("pods", OK, "", text)], f"{found.kind} {found.key}"
        placed = Explanation(subject=subject, verdict="placed", reason="", steps=steps, next="", contradicts=False)
        return Answer(explanation=placed)
    count = f"{len(waiting)} of {len(found.pods)} pods"
    notes.append(f"{count} of {found.kind} {found.key} wait; this is {waiting[0].key}")
    return Waiting(waiting[0], found.failure)


async def find_workload(kind: str, name: str, namespace: str, read: Read, pods: Iterable[Pod]) -> Workload | None:
    """Return the workload of a name, and of a kind unless that is ""; None if there is none.

    `name` may also be that of a pod that was refused. `pods` are those of the cluster. `read` must not be that of a
    scheduler, which reads some of these kinds as other types.
    """
    known: dict[_Name, KubeObject] = {}
    for each in _KINDS:
        known |= {
            _Name(each.kind, one.name): one for one in await read(within(each, namespace)) if one.namespace == namespace
        }
    events = [
        event
        for event in await read(within(CORE_EVENTS, namespace))
        if isinstance(event, CoreEvent) and event.reason == _FAILED_CREATE and event.namespace == namespace
    ]
    subject = _subject(kind, name, known, events)
    if subject is None:
        return None
    owned = _owned(subject, known)
    mine = [pod for pod in pods if pod.namespace == namespace and not owned.isdisjoint(_owners(pod))]
    steps = _failures(owned, namespace, known, events, mine)
    return Workload(
        kind=subject.kind,
        key=f"{namespace}/{subject.name}",
        failure=_explanation(subject, namespace, steps, mine) if steps else None,
        owned=sorted(
            (known[each] for each in owned & known.keys()),
            key=lambda item: (item.kind != subject.kind, -created_at(item)),
        ),
        pods=sorted(mine, key=lambda pod: pod.name),
    )


def _subject(kind: str, name: str, known: dict[_Name, KubeObject], events: Iterable[CoreEvent]) -> _Name | None:
    """Return which workload is meant: one of that name, else the one that an event with that name is about."""
    for each in known:  # in the order of kinds: of a Deployment and a Job of one name, the Deployment
        if each.name == name and kind in {"", each.kind}:
            return each
    for event in events:
        about = event.involved_object
        # The message quotes the name of the pod that was refused.
        if (about.name == name and kind in {"", about.kind}) or (not kind and f'"{name}"' in event.message):
            return _Name(about.kind, about.name)
    return None


def _owners(item: KubeObject) -> set[_Name]:
    return {_Name(owner.kind, owner.name) for owner in item.metadata.owner_references}


def _owned(subject: _Name, known: dict[_Name, KubeObject]) -> set[_Name]:
    """Return the workload and all workloads that it owns."""
    found, before = {subject}, 0
    while len(found) > before:
        before = len(found)
        found |= {name for name, item in known.items() if not found.isdisjoint(_owners(item))}
    return found


def _failures(
    owned: Iterable[_Name],
    namespace: str,
    known: dict[_Name, KubeObject],
    events: Iterable[CoreEvent],
    pods: Sequence[Pod],
) -> list[Step]:
    """Return a step for each failure: from the events, or else from the conditions."""
    newest = max((seconds_of(pod.metadata.creation_timestamp) for pod in pods), default=0.0)
    texts: dict[str, str] = {}
    for name in sorted(owned, key=lambda each: (each.kind, each.name)):
        where = f"{name.kind} {namespace}/{name.name}"
        for event in sorted(events, key=lambda each: seconds_of(each.last_seen), reverse=True):
            about, item = event.involved_object, known.get(name)
            is_other = item is not None and about.uid not in {"", item.uid}
            last = seconds_of(event.last_seen)
            if (about.kind, about.name) != (name.kind, name.name) or is_other or 0 < last < newest:
                continue
            count = f" ({event.count} times)" if event.count > 1 else ""
            texts.setdefault(event.message, f"{where}: {event.message}{count}")
            break
    if not texts:  # an event lives for an hour; the condition has its message, and stays
        for name in owned:
            item = known.get(name)
            status = getattr(item, "status", WorkloadStatus())
            for condition in status.conditions:
                if (condition.type, condition.status) == (_REPLICA_FAILURE, "True"):
                    texts.setdefault(condition.message, f"{name.kind} {namespace}/{name.name}: {condition.message}")
    return [Step("creation", HOLDS, _FAILED_CREATE, text) for text in texts.values()]


def _without_pods(found: Workload) -> Explanation:
    """Return why a workload has no pod; raise `ConfigError` if its spec and its status do not say so."""
    for item in found.owned[: 2 if found.kind == _CronJob.kind else 1]:  # a CronJob, and the last of its Jobs
        name = f"{item.kind} {item.namespace}/{item.name}"
        spec, status = getattr(item, "spec", None), getattr(item, "status", WorkloadStatus())
        ended = [each for each in status.conditions if each.type in {"Complete", "Failed"} and each.status == "True"]
        if ended:
            text = f"{name} has ended: {ended[0].type} {ended[0].message}".strip()
            return _idle(found, Step("spec", OK, "", text))
        if getattr(spec, "suspend", False):
            text = f"spec.suspend of {name} is true, so its controller creates no pods"
            return attrs.evolve(
                _idle(found, Step("spec", HOLDS, _SUSPENDED, text)),
                verdict="waits",
                reason=_SUSPENDED,
                next=f"the pods are created when spec.suspend of {name} is false",
            )
        for field in ("replicas", "parallelism"):
            if getattr(spec, field, None) == 0:
                return _idle(found, Step("spec", OK, "", f"spec.{field} of {name} is 0"))
        if isinstance(status, _DaemonSetStatus) and status.observed_generation and not status.desired_number_scheduled:
            return _idle(found, Step("status", OK, "", f"{name} selects no node"))
    if found.kind == _CronJob.kind and len(found.owned) == 1:
        schedule = getattr(found.owned[0], "spec", _Spec()).schedule
        return _idle(found, Step("spec", OK, "", f"no Job of it exists now; spec.schedule is {schedule}"))
    raise ConfigError(f"{found.kind} {found.key} has no pod, and nothing says why")


def _idle(found: Workload, step: Step) -> Explanation:
    """Return the explanation of a workload that is to have no pods."""
    return Explanation(
        subject=f"{found.kind} {found.key}", verdict="idle", reason="", steps=[step], next="", contradicts=False
    )


def _explanation(subject: _Name, namespace: str, steps: Sequence[Step], pods: Sequence[Pod]) -> Explanation:
    names = ", ".join(pod.name for pod in pods[:_NAMED]) + (", ..." if len(pods) > _NAMED else "")
    count = f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"
    text = f"{subject.kind} {namespace}/{subject.name} has {count}: {names}" if pods else "no pod exists"
    return Explanation(
        subject=f"{subject.kind} {namespace}/{subject.name}",
        verdict="waits",
        reason=_FAILED_CREATE,
        steps=[*steps, Step("pods", INFO, "", text)],
        next=_NEXT,
        contradicts=False,
    )
