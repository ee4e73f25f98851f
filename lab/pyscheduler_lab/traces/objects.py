"""Convert the pods of a dumped or recorded cluster to the jobs of a trace.

Equal pods of one pod group become the workers of one job.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from pyscheduler.api import DecodeError, Pod, decode, pod_requests
from pyscheduler.framework.errors import ConfigError, PySchedulerError
from pyscheduler.podgroup import DIALECTS
from pyscheduler_batch.gpu_sharing.device_shares import FRACTION_ANNOTATION, NUM_DEVICES_ANNOTATION
from pyscheduler_lab.clusters.node import GPU, MODEL_LABEL
from pyscheduler_lab.data.objects import changes_in, key_of, objects_in, time_of
from pyscheduler_lab.traces.found import Found
from pyscheduler_lab.traces.job import WHOLE_GPU, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.data.objects import Object

__all__ = ["read_objects"]

_MIRROR: Final = "kubernetes.io/config.mirror"
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_MEBI: Final = 1 << 20
#: The longest name of a job; a longer one is cut, and ends with a digest.
_LONGEST: Final = 52
_DIGEST: Final = 8


@attrs.define
class _Life:
    """A pod, and the times when it was first seen, started and ended; None for an unknown time."""

    manifest: Object
    arrived: float
    started: float | None = None
    ended: float | None = None


def read_objects(content: bytes, source: str) -> Found:
    """Return the pods as jobs; raise `ConfigError` if the content cannot be read."""
    changes = changes_in(content, source)
    lives = _recorded(changes, source) if changes is not None else _dumped(objects_in(content, source), source)
    return _jobs(lives, source)


# --- recordings ------------------------------------------------------------------------------------


def _recorded(changes: Sequence[Object], source: str) -> list[_Life]:
    lives: dict[tuple[str, ...], _Life] = {}
    over: list[_Life] = []
    for change in changes:
        resource, now = change["resource"], time_of(change.get("time"), "time of a change", source)
        if resource.get("kind") != "Pod":
            continue
        key = key_of(resource)
        life = lives.get(key)
        if life is None:
            if change["event"] == "Delete":
                continue
            life = lives[key] = _Life(resource, now)
        is_gone = change["event"] == "Delete"
        if resource.get("spec", {}).get("nodeName") and life.started is None and not is_gone:
            life.started = now
        # Of a pod that was over when the recording began, nobody knows when it ended.
        if life.ended is None and (is_gone or _is_over(resource)) and not _is_over(life.manifest):
            life.ended = now
        if is_gone:
            over.append(lives.pop(key))
    return [*over, *lives.values()]


# --- dumps -----------------------------------------------------------------------------------------


def _dumped(objects: Iterable[Object], source: str) -> list[_Life]:
    lives = []
    for each in objects:
        if each.get("kind") != "Pod":
            continue
        metadata, status = each["metadata"], each.get("status") or {}
        where = f"pod {metadata.get('namespace', 'default')}/{metadata.get('name')}"
        created = metadata.get("creationTimestamp")
        life = _Life(each, time_of(created, f"{where}: creationTimestamp", source) if created else 0.0)
        if status.get("startTime"):
            life.started = time_of(status["startTime"], f"{where}: startTime", source)
        if _is_over(each):
            states = [one.get("state", {}).get("terminated") or {} for one in status.get("containerStatuses") or ()]
            ends = [
                time_of(one["finishedAt"], f"{where}: finishedAt", source) for one in states if one.get("finishedAt")
            ]
            life.ended = max(ends, default=None)
        lives.append(life)
    return lives


# --- jobs ------------------------------------------------------------------------------------------


def _jobs(lives: Sequence[_Life], source: str) -> Found:
    notes: Counter[str] = Counter()
    groups: dict[tuple[str, str, str], list[tuple[_Life, Job]]] = {}
    begin = min((life.arrived for life in lives), default=0.0)
    for life in lives:
        left_out = _left_out(life)
        if left_out:
            notes[f"pods left out: {left_out}"] += 1
            continue
        pod = _pod(life.manifest, source)
        group = next(filter(None, (key.read(pod) for row in DIALECTS for key in row.keys)), "")
        job = _job(pod, life, begin, source)
        alike = (job.cpu_milli, job.memory_mib, job.gpus, job.gpu_milli, job.gpu_models, job.node_selector)
        shape = repr(alike) if group else ""
        groups.setdefault((pod.namespace, group or pod.key, shape), []).append((life, job))
    shapes = Counter(key[:2] for key in groups)
    unequal = sum(number > 1 for number in shapes.values())
    if unequal:
        notes["groups with unequal pods, one job for each kind of pods"] = unequal
    taken: set[str] = set()
    jobs = []
    for (namespace, group, _), members in groups.items():
        first = min(members, key=lambda each: each[1].arrival)[1]
        jobs.append(
            attrs.evolve(
                first,
                name=_name(namespace, group.rpartition("/")[2], taken),
                workers=len(members),
                min_workers=len(members),
                duration=max(job.duration for _, job in members),
            )
        )
    return Found(jobs=jobs, is_one_cluster=True, notes=notes)


def _left_out(life: _Life) -> str:
    metadata = life.manifest["metadata"]
    if any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences") or ()):
        return "of a DaemonSet"
    if _MIRROR in (metadata.get("annotations") or {}):
        return "static"
    if _is_over(life.manifest) and (life.started is None or life.ended is None):
        return "ended at an unknown time"
    return "deleted before they had a node" if life.ended is not None and life.started is None else ""


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _TERMINAL


def _pod(manifest: Object, source: str) -> Pod:
    try:
        return decode(Pod, msgspec.json.encode(manifest))
    except DecodeError as error:
        raise ConfigError(f"pod {manifest['metadata'].get('name')}: {error}", source=source) from error


def _job(pod: Pod, life: _Life, begin: float, source: str) -> Job:
    try:
        requests = pod_requests(pod)
    except PySchedulerError as error:
        raise ConfigError(f"pod {pod.key}: {error}", source=source) from error
    gpus, gpu_milli = requests.get(GPU, 0), WHOLE_GPU
    if FRACTION_ANNOTATION in pod.annotations:
        gpus, gpu_milli = _share(pod, source)
    started = life.started if life.started is not None else life.arrived
    selector = dict(pod.spec.node_selector)
    model = selector.pop(MODEL_LABEL, "")
    return Job(
        name=pod.name,
        arrival=life.arrived - begin,
        duration=inf if life.ended is None else max(life.ended - started, 0.0),
        cpu_milli=requests.get("cpu", 0),
        memory_mib=-(-requests.get("memory", 0) // _MEBI),
        gpus=gpus,
        gpu_milli=gpu_milli,
        gpu_models=(model,) if model else (),
        team=pod.namespace,
        priority=pod.spec.priority or 0,
        job_class=pod.spec.priority_class_name,
        node_selector=selector,
    )


def _share(pod: Pod, source: str) -> tuple[int, int]:
    try:
        devices = int(pod.annotations.get(NUM_DEVICES_ANNOTATION, "1"))
        milli = round(float(pod.annotations[FRACTION_ANNOTATION]) * WHOLE_GPU)
    except ValueError:
        devices = milli = 0
    if not 0 < milli < WHOLE_GPU or devices < 1:
        raise ConfigError(f"pod {pod.key}: the annotations of a part of a GPU cannot be read", source=source)
    return devices, milli


def _name(namespace: str, name: str, taken: set[str]) -> str:
    """Return a name for a job that no other job has."""
    plain = re.sub(r"[^a-z0-9-]", "-", name).strip("-") or "pod"
    if plain in taken:
        plain = f"{namespace}-{plain}"
    if len(plain) > _LONGEST or plain in taken:
        digest = hashlib.sha256(f"{namespace}/{name}/{len(taken)}".encode()).hexdigest()[:_DIGEST]
        plain = f"{plain[: _LONGEST - _DIGEST - 1].rstrip('-')}-{digest}"
    taken.add(plain)
    return plain
