"""Extenders: programs that the scheduler calls over HTTP when it schedules a pod.

An extender may reject nodes, score nodes, bind the pod, or change the result of a search for victims.

Differs from kube-scheduler: if an extender returns whole nodes, pyscheduler reads only their names.
Source: kube-scheduler 1.36, `extender.go`, `findNodesThatPassExtenders`, `prioritizeNodes`, `extendersBinding`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from pyscheduler.config.types import EXTENDER_TIMEOUT_SECONDS
from pyscheduler.framework.errors import TransportError
from pyscheduler.framework.preemption import Candidate
from pyscheduler.framework.status import MAX_SCORE, Code, Status
from pyscheduler.runtime.extension_points.scoring import PluginScores
from pyscheduler.scheduler import extender_wire as wire
from pyscheduler.scheduler.extender_wire import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from numpy.typing import NDArray

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.config.types import Extender as ExtenderConfig
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.scheduler.object_texts import ObjectTexts
    from pyscheduler.scheduler.ports import ExtenderConnection, Response

__all__ = ["Extender", "Extenders"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Extenders score from 0 to this.
_MAX_PRIORITY: Final = 10
_OK: Final = 200


@attrs.define(kw_only=True, eq=False)
class Extender:
    """One extender. All methods that ask it raise `ExtenderError` where it fails."""

    config: ExtenderConfig
    connection: ExtenderConnection
    clock: Clock
    forms: ObjectTexts
    _managed: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._managed = frozenset(resource.name for resource in self.config.managed_resources)

    @property
    def name(self) -> str:
        """Return what it is called in logs: its URL."""
        return self.config.url_prefix

    @property
    def ignorable(self) -> bool:
        """Return whether scheduling goes on without it where it fails."""
        return self.config.ignorable

    def supports_preemption(self) -> bool:
        """Return whether it wants to be asked about victims."""
        return bool(self.config.preempt_verb)

    def is_interested(self, pod: Pod) -> bool:
        """Return whether the pod uses a resource that this extender manages; it manages all where it names none."""
        managed = self._managed
        if not managed:
            return True
        return any(
            name in managed
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
            for name in amounts
        )

    async def filter(self, pod: Pod, nodes: Nodes) -> tuple[NDArray[np.int64], Mapping[str, Status]]:
        """Ask which of `nodes` can take `pod`; return their rows, and by name the rejections of others."""
        rows, answer = await self._ask_about(self.config.filter_verb, pod, nodes)
        result = wire.read_filter_result(answer)
        if result.error:
            raise ExtenderError(result.error)
        passing = result.node_names if self.config.node_cache_capable else None
        if passing is None:
            passing = await wire.read_node_list(result.nodes) if result.nodes is not None else ()
        for name in passing:
            if name not in rows:
                who, what = json.dumps(self.name), json.dumps(name)
                raise ExtenderError(
                    f"extender {who} claims a filtered node {what} which is not found in the input node list"
                )
        refused = {name: Status(Code.UNSCHEDULABLE, text) for name, text in result.failed.items()}
        # A node that stands in both lists is beyond help.
        refused.update(
            (name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)) for name, text in result.unresolvable.items()
        )
        return np.unique(np.array([rows[name] for name in passing], dtype=np.int64)), refused

    async def prioritize(self, pod: Pod, nodes: Nodes) -> PluginScores:
        """Ask for scores, brought to the scale of the plugins' (0 to 100, if it keeps to its own, 0 to 10)."""
        rows, answer = await self._ask_about(self.config.prioritize_verb, pod, nodes)
        raw: NDArray[np.int64] = np.zeros(len(rows), dtype=np.int64)
        for host, score in wire.read_priorities(answer):
            row = rows.get(host)
            if row is not None:
                raw[row : row + 1] += score
        # Arrays wrap around as Go's integers do.
        return PluginScores(raw * (MAX_SCORE // _MAX_PRIORITY), self.config.weight, raw)

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Candidate], snapshot: Snapshot
    ) -> Mapping[str, Candidate]:
        """Ask on which nodes the preemption may go on, and with which victims."""
        meta = self.config.node_cache_capable
        victims = {
            name: ([self._victim(info, meta=meta) for info in one.victims], one.pdb_violations)
            for name, one in candidates.items()
        }
        question = wire.preemption_args(self.forms.text(pod), victims=victims, meta=meta)
        answer = wire.read_victims(await self._ask(self.config.preempt_verb, question))
        return {name: self._candidate(name, one, snapshot) for name, one in answer.items()}

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have the pod bound."""
        question = wire.binding_args(name=pod.name, namespace=pod.namespace, uid=pod.uid, node_name=node_name)
        error = wire.read_binding_error(await self._ask(self.config.bind_verb, question))
        if error:
            raise ExtenderError(error)

    def _victim(self, info: PodInfo, *, meta: bool) -> bytes:
        return json.dumps(info.pod.uid).encode() if meta else self.forms.text(info.pod)

    def _candidate(self, node_name: str, told: wire.MetaVictims | None, snapshot: Snapshot) -> Candidate:
        """Return the pods behind the uids that the extender named."""
        node = snapshot.get(node_name)
        if node is None:
            raise ExtenderError(f"nodeinfo not found for node name {json.dumps(node_name)}")
        pods = {info.pod.uid: info for info in node.pods}
        victims = []
        for uid in told.uids if told is not None else ():
            if uid not in pods:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node_name}, "
                    "but the pod is not found on that node"
                )
            victims.append(pods[uid])
        return Candidate(
            node_name=node_name, victims=tuple(victims), pdb_violations=told.pdb_violations if told is not None else 0
        )

    async def _ask_about(self, verb: str, pod: Pod, nodes: Nodes) -> tuple[Mapping[str, int], bytes]:
        """Ask about `nodes` in the form that this extender wants; return the row of each name, and the answer."""
        rows = {node.name: row for row, node in enumerate(nodes)}
        names = [*rows] if self.config.node_cache_capable else None
        texts = await self.forms.nodes(nodes) if names is None else ()
        return rows, await self._ask(verb, wire.filter_args(self.forms.text(pod), names=names, nodes=texts))

    async def _ask(self, verb: str, question: Sequence[bytes]) -> bytes:
        url = f"{self.config.url_prefix.rstrip('/')}/{verb}"
        seconds = self.config.http_timeout_seconds or EXTENDER_TIMEOUT_SECONDS
        try:
            response: Response = await _within(self.connection.post(url, question), seconds, self.clock)
        except TimeoutError:
            text = f'Post "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            raise ExtenderError(text) from None
        except TransportError as error:
            raise ExtenderError(str(error)) from error
        if response.status != _OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
        return response.body


@attrs.define(kw_only=True, eq=False)
class Extenders:
    """All extenders, in the order in which they are asked."""

    members: Sequence[Extender]
    recorder: Recorder
    #: How many are being asked for scores right now.
    prioritizing: int = 0

    @property
    def any_chooses(self) -> bool:
        """Return whether any of them filters or scores: then one feasible node is not as good as another."""
        return any(one.config.filter_verb or one.config.prioritize_verb for one in self.members)

    def have_a_say(self, pod: Pod) -> bool:
        """Return whether any of them has to be asked about the nodes for this pod."""
        return any(
            (one.config.filter_verb or one.config.prioritize_verb) and one.is_interested(pod) for one in self.members
        )

    async def filter(self, pod: Pod, nodes: Nodes, refused: dict[str, Status]) -> Nodes:
        """Return the nodes that all extenders leave; put what they say of others into `refused`.

        Raises `ExtenderError` where one fails that is not ignorable.
        """
        for one in self.members:
            if not len(nodes):
                break
            if not one.config.filter_verb or not one.is_interested(pod):
                continue
            try:
                rows, rejections = await one.filter(pod, nodes)
            except ExtenderError as error:
                if not one.ignorable:
                    raise
                self._ignored(one, "filter", pod, error)
                continue
            refused.update(rejections)
            if len(rows) < len(nodes):
                nodes = nodes.take(rows)
        return nodes

    async def accept(self, pod: Pod, node: Nodes, refused: dict[str, Status]) -> bool:
        """Return whether all extenders leave the node that the pod is nominated to; one that fails does not."""
        try:
            return len(await self.filter(pod, node, refused)) > 0
        except ExtenderError as error:
            name = node.name(0)
            _log.warning('Evaluation failed on nominated node pod=%s node=%s err="%s"', pod.key, name, error)
            return False

    async def prioritize(self, pod: Pod, nodes: Nodes) -> Sequence[tuple[str, PluginScores]]:
        """Return the scores of each extender that gives any, by its name; they are asked all at once."""
        asked = [one for one in self.members if one.config.prioritize_verb and one.is_interested(pod)]
        answers = await asyncio.gather(*(self._scores(one, pod, nodes) for one in asked))
        return [(one.name, scores) for one, scores in zip(asked, answers, strict=True) if scores is not None]

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Have the pod bound by the extender whose business that is; None where it is nobody's."""
        for one in self.members:
            if not one.config.bind_verb or not one.is_interested(pod):
                continue
            try:
                await one.bind(pod, node_name)
            except ExtenderError as error:
                if not one.ignorable:
                    return Status.from_error(error)
                self._ignored(one, "bind", pod, error)
                continue
            return Status(Code.SUCCESS)
        return None

    async def close(self) -> None:
        """Close the connections."""
        for one in self.members:
            await one.connection.close()

    async def _scores(self, one: Extender, pod: Pod, nodes: Nodes) -> PluginScores | None:
        self.prioritizing += 1
        try:
            return await one.prioritize(pod, nodes)
        except ExtenderError as error:
            self._ignored(one, "prioritize", pod, error)
            return None
        finally:
            self.prioritizing -= 1

    def _ignored(self, one: Extender, verb: str, pod: Pod, error: ExtenderError) -> None:
        self.recorder.warning("extender_ignored")
        _log.info('Skipped extender, as it failed extender=%s verb=%s pod=%s err="%s"', one.name, verb, pod.key, error)


async def _within(work: Awaitable[T], seconds: float, clock: Clock) -> T:
    """Await `work`, for so long at most; then cancel it and raise `TimeoutError`."""
    task = asyncio.ensure_future(work)
    late = False

    def give_up() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = clock.call_later(seconds, give_up)
    try:
        return await task
    except asyncio.CancelledError:
        asking = asyncio.current_task()
        if late and not (asking is not None and asking.cancelling()):
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
