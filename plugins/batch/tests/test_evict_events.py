"""The event `Evict` on groups of KAI."""

from __future__ import annotations

from typing import Any

from pyscheduler_lab.testing import gpus


async def test_an_eviction_counts_each_pod_once(kai: Any) -> None:
    """A plan of KAI may name a pod twice; the event does not."""
    kai.nodes(2, cpu="32", **{"nvidia.com/gpu": "4"})
    for name, quota in (("a", 2), ("b", 6)):
        kai.queue(name, resources=gpus(quota))
    await kai.start()
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    for name, count in (("old", 6), ("late", 2)):
        kai.group(name, "a", 1)
        kai.pods(name, count, requests=requests)
    await kai.pass_time(5)
    kai.go("Running", *[pod.name for pod in kai.cluster.pods()])
    await kai.pass_time(120)
    before = {pod.name for pod in kai.cluster.pods()}
    kai.job("want", "b", 3, requests=requests)
    await kai.pass_time(3)
    gone = before - {pod.name for pod in kai.cluster.pods() if not pod.is_terminating}
    notes = {job: [note for _, reason, note in kai.events(job) if reason == "Evict"] for job in ("old", "late")}
    assert len(gone) == 3
    for job, (note,) in notes.items():
        mine = [name for name in gone if name.startswith(f"{job}-")]
        assert all(note.count(f"default/{name} ") + note.count(f"default/{name},") == 1 for name in mine)
        assert note.endswith(f"(action=reclaim by=default/want pods={len(mine)})")
