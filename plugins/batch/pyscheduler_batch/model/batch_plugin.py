"""`BatchPlugin`: the methods through which a scheduling round asks the plugin `Batch` about queues, jobs and nodes."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework.work_sources import WorkSourcePlugin
from pyscheduler_batch.model.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import Node, Pod
    from pyscheduler_batch.contract import Action
    from pyscheduler_batch.model.axis import ResourceAxis
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.session import EnabledPolicy
    from pyscheduler_batch.model.tasks import Job, Task, TaskState

__all__ = ["PLAIN", "BatchPlugin", "NodeUse", "TaskFacts"]


class NodeUse(IntEnum):
    """The use of a node for the sessions of a profile."""

    #: Another scheduler's: nothing is placed there, and its amounts do not count.
    NONE = 0
    #: It holds tasks, but takes no new ones, and its amounts are not divided among queues.
    NOT_READY = 1
    FULL = 2


@attrs.frozen
class TaskFacts:
    """The settings of a pod within its job."""

    sub_group: str = ""
    role: str = ""
    #: Whether the pod's own settings allow evictions.
    preemptible: bool = True


#: The facts of most pods.
PLAIN: Final = TaskFacts()


class BatchPlugin(WorkSourcePlugin):
    """Answers the questions of sessions about their profile; `sessions.assembly.SessionPlugin` adds the sessions.

    A pass begins soon after `on_change` callbacks, and after changes of pods and nodes, which the scheduler sees
    itself. All methods but `subscribe` are called within a pass; they must not await.
    """

    #: The reason of the event on pods that wait.
    pod_event: str = "FailedScheduling"
    #: Whether a job in a queue with children has a row in the queue table: the policies then judge it.
    inner_queues: bool = False
    #: Whether a gang of which one task loses its promised node keeps the promises to the others.
    keeps_parts: bool = False
    #: Whether the pods of a gang wait for each other between PreBind and Bind.
    gang_barrier: bool = False
    #: How labels begin that plugins of the profile write to waiting pods: their changes make no pass due.
    own_labels: tuple[str, ...] = ()
    #: The resources that queues count and no node limits, such as devices that a filter allocates.
    unbounded: frozenset[str] = frozenset()
    #: Set by the scheduler: call it when shares have changed although no object has.
    on_news: Callable[[], object] = staticmethod(lambda: None)

    def note_of_single_pod(self, profile: str, pod: Pod) -> str:
        """Return that a pod alone tells little here."""
        return (
            f"profile {profile} decides job by job, and {pod.key} is evaluated alone; "
            f"`pyscheduler explain job {pod.namespace}/NAME` tells why its job waits"
        )

    @property
    def is_reading(self) -> bool:
        """Return whether passes must wait for what the plugin still reads; it calls `on_news` in the end."""
        return False

    @property
    def actions(self) -> Sequence[Action]:
        """Return the actions of a pass, in order."""
        raise NotImplementedError

    @property
    def tiers(self) -> Sequence[Sequence[EnabledPolicy]]:
        """Return the policies by tier."""
        raise NotImplementedError

    def subscribe(self, on_change: Callable[[str | None], object]) -> None:
        """Call `on_change` with the key of a job whose description changed, with None for queues and priorities."""
        raise NotImplementedError

    def make_session(self, **parts: Any) -> Session:
        """Return a session with these attributes of `Session`."""
        return Session(**parts)

    def resources(self) -> Iterable[str]:
        """Return the names of all resources that queues name."""
        raise NotImplementedError

    def queue_table(self, axis: ResourceAxis) -> tuple[QueueTable, Mapping[str, str]]:
        """Return the table of queues, and by name of a queue that is not in it, why: a stable reason."""
        raise NotImplementedError

    def node_use(self, node: Node) -> NodeUse:
        """Return what a node is to the sessions."""
        return NodeUse.FULL

    def job_key(self, pod: Pod) -> str:
        """Return what names the job of a pod: equal for all its tasks."""
        raise NotImplementedError

    def is_alone(self, pod: Pod) -> bool:
        """Return whether a pod is a job of its own so far: if PreEnqueue holds it back, no session knows it."""
        return False

    def amounts_beside(self, pod: Pod) -> Mapping[str, float] | None:
        """Return what a pod counts for besides its requests, of its queue and its node; below 0 it counts for less."""
        return None

    def is_foreign(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether another scheduler is responsible for a job: it is ignored without a word."""
        return False

    def jobs_without_pods(self) -> Iterable[str]:
        """Return the keys of the jobs for which `counts_without_pods` is true, and maybe of others."""
        return ()

    def counts_without_pods(self, key: str) -> bool:
        """Return whether a job without living pods takes part, such as a group whose pods are created later."""
        return False

    def job_spec(self, key: str, pods: Sequence[Pod]) -> JobSpec | None:
        """Return the description of a job; None if it must not be considered yet (its group does not exist).

        `pods` is empty only for jobs that count without pods.
        """
        raise NotImplementedError

    def job_priority(self, spec: JobSpec, pods: Sequence[Pod]) -> float:
        """Return the priority value of a job."""
        raise NotImplementedError

    def is_preemptible(self, spec: JobSpec, priority: float) -> bool:
        """Return whether a job may be evicted."""
        raise NotImplementedError

    def task_facts(self, spec: JobSpec, pod: Pod) -> TaskFacts:
        """Return what a pod says about itself."""
        raise NotImplementedError

    def are_plain(self, spec: JobSpec, pods: Sequence[Pod]) -> bool:
        """Return whether none of these pods says anything about itself: their facts are `PLAIN`."""
        return all(self.task_facts(spec, pod) == PLAIN for pod in pods)

    def ended(self, key: str) -> Iterable[tuple[Pod, TaskState]]:
        """Return the tasks of a job that have ended, with their states: Succeeded or Failed."""
        raise NotImplementedError

    def marks_unschedulable(self, job: Job) -> bool:
        """Return whether pods of a job that waits get the condition that they are unschedulable."""
        return True

    async def pass_ended(self, session: Session, waiting: Mapping[str, str]) -> None:
        """Write statuses; `waiting` has by job key why the job waits, empty for jobs that do not.

        Await `session.turn()` now and then.
        """

    def evicted(self, job: Job, *, action: str, by: Job | None, tasks: Sequence[Task]) -> None:
        """Take notice that a pass evicts these tasks of a job, to write events; `by`: the job that gets the room."""
