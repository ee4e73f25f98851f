"""Reservation pods: created before the first pod shares a GPU, deleted when no pod shares the GPU any more.

A reservation pod requests one whole GPU, so that neither the kubelet nor another scheduler gives the GPU away.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import attrs

from pyscheduler.api import ConfigMap, Pod
from pyscheduler.framework import (
    AlreadyExistsError,
    APIError,
    ConflictError,
    NotFoundError,
    PolicyRule,
    PySchedulerError,
    TransportError,
)
from pyscheduler.framework.plugin_args import Duration
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL, group_labels, groups_of
from pyscheduler_batch.model.axis import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler.framework import Handle
    from pyscheduler_batch.gpu_sharing.books import Share

__all__ = ["GpuSharingArgs", "Reservations", "rules"]

_log = logging.getLogger(__name__)

INDEX_ANNOTATION: Final = "run.ai/reserve_for_gpu_index"
_RECEIVED: Final = "received-resource-type"
_CONFIG_MAP: Final = "runai/shared-gpu-configmap"
_CONTAINER: Final = "gpu-fraction-container-name"
_NAME: Final = "kai-resource-reservation"
#: The longest part of a node's name in the name of a reservation pod.
_NODE_NAME: Final = 200
_RETRY_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class GpuSharingArgs:
    """The args of `GpuSharing`; the defaults are those of KAI's binder."""

    #: The namespace, service account and image of reservation pods.
    namespace: str = _NAME
    service_account: str = _NAME
    image: str = "registry/local/kai-scheduler/resource-reservation"
    runtime_class_name: str = ""
    #: How long the index of a device may take. 0: nobody waits for it, as on nodes without real GPUs.
    allocation_timeout_seconds: Duration = 40.0
    #: Whether shares are spread over devices; by default, they fill one device first.
    spread: bool = False


def rules(args: GpuSharingArgs) -> tuple[PolicyRule, ...]:
    """Return the permissions: reservation pods, labels of pods, ConfigMaps of pods."""
    return (
        PolicyRule(
            api_groups=("",), resources=("pods",), verbs=("get", "create", "delete"), namespaces=(args.namespace,)
        ),
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)),
        PolicyRule(api_groups=("",), resources=("configmaps",), verbs=("create", "patch")),
    )


class Reservations:
    """Writes reservation pods, and what pods need to know of their devices."""

    def __init__(self, handle: Handle, args: GpuSharingArgs) -> None:
        self._handle = handle
        self._args = args
        self._pods = handle.lister(Pod)
        #: By name of a device, the pods that have its label, by uid; reservation pods are not among them.
        self._sharing: dict[str, dict[str, Pod]] = {}
        #: By uid, the devices of pods that Reserve has given to them for real.
        self._claimed: dict[str, tuple[str, ...]] = {}
        #: By name of a device, the pod that reserves it, and those who wait for a change of it.
        self._reserving: dict[str, Pod] = {}
        self._changed: dict[str, asyncio.Event] = {}
        #: By name of a device, while a binding makes or awaits its reservation pod.
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._wake = asyncio.Event()
        self._is_running = False
        #: By uid of a pod, what removes its old labels.
        self._removals: dict[str, asyncio.Task[None]] = {}

    # --- who shares what

    def claim(self, uid: str, groups: Sequence[str]) -> None:
        """Keep these devices reserved for a pod from now on."""
        self._claimed[uid] = tuple(groups)

    def unclaim(self, uid: str) -> None:
        """Forget a claim."""
        if self._claimed.pop(uid, None) is not None:
            self._wake.set()

    def sharing(self, group: str) -> Sequence[Pod]:
        """Return the pods with the label of a device."""
        return [*self._sharing.get(group, {}).values()]

    def pod_seen(self, pod: Pod) -> None:
        """Note the labels of a pod."""
        if pod.namespace == self._args.namespace:
            self._note_reserving(pod)
            return
        groups = groups_of(pod)
        self._forget(pod.uid, keep=groups)
        for group in groups:
            self._sharing.setdefault(group, {})[pod.uid] = pod
        if pod.node_name:
            self.unclaim(pod.uid)  # its labels count from now on

    def pod_gone(self, pod: Pod) -> None:
        """Forget a pod that was deleted or has ended."""
        self._forget(pod.uid, keep=())
        self.unclaim(pod.uid)
        group = pod.labels.get(GROUP_LABEL, "")
        if pod.namespace == self._args.namespace and group in self._reserving and self._reserving[group].uid == pod.uid:
            del self._reserving[group]
            self._ring(group)

    def _note_reserving(self, pod: Pod) -> None:
        group = pod.labels.get(GROUP_LABEL, "")
        if group:
            self._reserving[group] = pod
            self._ring(group)
            self._wake.set()

    def _forget(self, uid: str, *, keep: Iterable[str]) -> None:
        for group in [group for group, pods in self._sharing.items() if uid in pods and group not in keep]:
            del self._sharing[group][uid]
            if not self._sharing[group]:
                del self._sharing[group]
            self._wake.set()

    def _ring(self, group: str) -> None:
        changed = self._changed.pop(group, None)
        if changed is not None:
            changed.set()

    def decide_anew(self, pod: Pod) -> None:
        """Remove the labels of a pod that waits for a decision: an attempt that failed, or a crash, has left them.

        The label would keep devices reserved that the pod may never get.
        """
        seen = self._pods.get(pod.name, pod.namespace)
        is_old = seen is not None and seen.uid == pod.uid and not seen.node_name and bool(groups_of(seen))
        if is_old and self._is_running and pod.uid not in self._claimed and pod.uid not in self._removals:
            removal = self._handle.spawn(self._remove_labels(pod), name=f"remove GPU labels of {pod.key}")
            self._removals[pod.uid] = removal
            removal.add_done_callback(lambda _: self._removals.pop(pod.uid, None))

    async def _remove_labels(self, pod: Pod) -> None:
        seen = self._pods.get(pod.name, pod.namespace)
        if seen is None or seen.uid != pod.uid or seen.node_name:
            return
        patch = {"metadata": {"uid": pod.uid, "labels": group_labels(seen, ())}}
        try:
            await self._handle.client.patch(Pod, pod.name, pod.namespace, patch=patch)
        except (APIError, TransportError) as error:
            _log.warning('GPU labels were not removed pod=%s err="%s"', pod.key, error)

    # --- before a binding

    async def prepare(self, pod: Pod, share: Share, portion: float) -> None:
        """Write the names of a pod's devices, and reserve them; raise `PySchedulerError` if that fails.

        The label comes first: no scheduler deletes a reservation pod whose device a pod names.
        """
        removal = self._removals.get(pod.uid)
        if removal is not None:
            await asyncio.wait([removal])
        pod = self._pods.get(pod.name, pod.namespace) or pod
        patch = {
            "metadata": {
                "uid": pod.uid,
                "labels": group_labels(pod, share.groups),
                "annotations": {_RECEIVED: "Fraction"},
            }
        }
        await self._handle.client.patch(Pod, pod.name, pod.namespace, patch=patch)
        indexes = []
        for group in share.groups:
            async with self.locks.setdefault(group, asyncio.Lock()):
                indexes.append(await self._reserved(group, share.node))
        for name, body in _config_maps(pod, ",".join(indexes), portion):
            await self._write_config_map(pod, name, body)

    async def _reserved(self, group: str, node_name: str) -> str:
        """Return the index of a device, once a pod reserves it."""
        found = self._reserving.get(group)
        if found is None:
            body = self._body(group, node_name)
            try:
                found = await self._handle.client.create(Pod, body, self._args.namespace)
            except AlreadyExistsError:
                found = await self._handle.client.get(Pod, str(body["metadata"]["name"]), self._args.namespace)
            except NotFoundError:
                where = f'namespace "{self._args.namespace}"'
                raise PySchedulerError(f"no GPU can be reserved: {where} does not exist; create it") from None
        if found.is_terminating or found.node_name != node_name:
            raise PySchedulerError(f"GPU reservation pod {found.namespace}/{found.name} is of another node, or ends")
        timeout = self._args.allocation_timeout_seconds
        if not timeout:
            return found.annotations.get(INDEX_ANNOTATION, "")
        until = self._handle.clock.now() + timeout
        while not (index := found.annotations.get(INDEX_ANNOTATION, "")):
            await self._changes(group, until)
            newest = self._reserving.get(group)
            if newest is None or self._handle.clock.now() >= until:
                await self._delete(found)
                raise PySchedulerError(
                    f"failed waiting for GPU reservation pod to allocate: {found.namespace}/{found.name}"
                )
            found = newest
        return index

    async def _changes(self, group: str, until: float) -> None:
        """Wait for a change of a reservation pod, or until a time."""
        changed = self._changed.setdefault(group, asyncio.Event())
        timer = self._handle.clock.call_at(until, lambda: self._ring(group))
        try:
            await changed.wait()
        finally:
            timer.cancel()

    def _body(self, group: str, node_name: str) -> dict[str, dict[str, object]]:
        one = {GPU: "1"}
        container = {
            "name": "resource-reservation",
            "image": self._args.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"limits": one, "requests": one},
            "env": [
                {"name": f"POD_{key.upper()}", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{key}"}}}
                for key in ("name", "namespace")
            ],
        }
        runtime = self._args.runtime_class_name
        return {
            "metadata": {
                "name": f"gpu-reservation-{node_name[:_NODE_NAME]}-{group[:8]}",
                "namespace": self._args.namespace,
                "labels": {"app": _NAME, GROUP_LABEL: group},
                "annotations": {"karpenter.sh/do-not-disrupt": "true"},
            },
            "spec": {
                "nodeName": node_name,
                "serviceAccountName": self._args.service_account,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **({"runtimeClassName": runtime} if runtime else {}),
            },
        }

    async def _write_config_map(self, pod: Pod, name: str, data: dict[str, str]) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": pod.namespace, "ownerReferences": [owner]},
            "data": data,
        }
        try:
            await self._handle.client.create(ConfigMap, body, pod.namespace)
        except AlreadyExistsError:
            patch = {"metadata": {"ownerReferences": [owner]}, "data": data}
            await self._handle.client.patch(ConfigMap, name, pod.namespace, patch=patch)

    # --- reservations that nobody needs

    async def run(self) -> None:
        """Delete reservation pods whose device nobody shares, until cancelled; once for all profiles."""
        if self._is_running:
            return
        self._is_running = True
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._delete_idle()
        finally:
            self._is_running = False

    async def _delete_idle(self) -> None:
        try:
            for pod in self._idle():
                await self._delete(pod)
        except (APIError, TransportError) as error:
            _log.warning('Reservation pod was not deleted; it is tried again err="%s"', error)
            self._handle.clock.call_later(_RETRY_SECONDS, self._wake.set)

    def _idle(self) -> Sequence[Pod]:
        claimed = {group for groups in self._claimed.values() for group in groups}
        return [
            pod
            for group, pod in self._reserving.items()
            if group not in claimed and group not in self._sharing and not pod.is_terminating
        ]

    async def _delete(self, pod: Pod) -> None:
        try:
            await self._handle.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return


def _config_maps(pod: Pod, indexes: str, portion: float) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield names and data of the ConfigMaps that KAI's admission gave a pod; none without it."""
    prefix = pod.annotations.get(_CONFIG_MAP, "")
    if not prefix:
        return
    named = pod.annotations.get(_CONTAINER, "")
    places = [
        *((each.name, str(index)) for index, each in enumerate(pod.spec.containers)),
        *((each.name, f"i{index}") for index, each in enumerate(pod.spec.init_containers)),
    ]
    index = next((place for name, place in places if name == named), "0")
    devices = {"NVIDIA_VISIBLE_DEVICES": indexes}
    amount = f"{portion:.2f}"
    yield f"{prefix}-{index}", {**devices, "GPU_PORTION": amount, "RUNAI_NUM_OF_GPUS": amount}
    yield f"{prefix}-{index}-evar", devices
