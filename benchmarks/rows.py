"""The rows of `make bench`: each row is one measurement with its targets."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks import (
    backlog,
    batch,
    batch_grouping,
    batch_holds,
    batch_latency,
    batch_topology,
    cases,
    client,
    cohorts,
    measure,
    package,
    preemption,
    programs,
    waiting,
)
from benchmarks.cohort_shapes import SHAPES
from benchmarks.measured_clusters import Setting
from benchmarks.targets import ORDER, targets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["MODES", "SPECS", "Row", "case_row", "named_rows", "program_rows", "setting_of", "standard_names"]

MODES: Final = ("cycle", "http", "https", "cluster")
#: Whether all measured pods have one spec, or 500 different ones.
SPECS: Final = ("equal", "distinct")
_SIZES: Final = (500, 5000, 15_000)
_SHORT_SIZE: Final = 50
#: Cases that say what they are to say at these sizes.
_OWN_SIZES: Final = {
    **dict.fromkeys(("Gangs", "GangsInQueues", "GangsInVolcanoQueues"), (1000,)),
    "OneGang": (500, 1000, 2000),
    "UnschedulableBacklog": (5000,),
}
#: What is measured besides. Over HTTP the path is the same for all; there memory is the scheduler's alone.
_MORE: Final = (
    "SchedulingBasic/15000x100000/cycle/equal",
    "SchedulingBasic/5000x2000/cycle/equal",
    "SchedulingBasic/5000x30000/cycle/equal",
    "SchedulingBasic/500/http/equal",
    "SchedulingBasic/1000/http/equal",
    "SchedulingBasic/5000/http/equal",
    "SchedulingBasic/5000/https/equal",
    "SchedulingBasic/15000/http/equal",
    "SchedulingBasic/5000x2000/http/equal",
    "SchedulingBasic/5000x30000/http/equal",
    "Gangs/1000/http/equal",
    "GangsInQueues/1000/http/equal",
    "GangsInVolcanoQueues/1000/http/equal",
)
#: Rows without a target, for the curves, the model of costs, README and the other measurements of the page.
_SCALE: Final = (
    "SchedulingBasic/500/cycle/equal",
    "SchedulingBasic/15000x100000/cycle/equal",
    "SchedulingBasic/15000/http/equal",
    "SchedulingBasic/5000x30000/http/equal",
    "SchedulingBasic/5000x2000/http/equal",
    "SchedulingBasic/500/http/equal",
    "SchedulingBasic/5000x2000/cycle/equal",
    "SchedulingBasic/5000x30000/cycle/equal",
    "SchedulingPodAffinity/500/cycle/equal",
    "SchedulingPodAffinity/15000/cycle/equal",
    "TopologySpreading/500/cycle/equal",
    "TopologySpreading/15000/cycle/equal",
    "OneGang/500/cycle/equal",
    "OneGang/2000/cycle/equal",
    "demo",
    "reaction",
    "sync",
    "relist-changed",
    "search",
    "ready",
    "imports",
    "installed",
)
_ROW_NAME: Final = re.compile(rf"(\w+)/([1-9]\d*)(?:x([1-9]\d*))?/({'|'.join(MODES)})/({'|'.join(SPECS)})")
_MORE_SHORT: Final = ("SchedulingBasic/50/http/equal", "SchedulingBasic/50/https/equal", "Gangs/50/http/equal")


@attrs.frozen(kw_only=True)
class Row:
    """One measurement, made in a process of its own; it returns figures by the names of `report.FIGURES`."""

    name: str
    what: str
    measure: Callable[[], dict[str, Any]]
    targets: Mapping[str, str] = attrs.Factory(dict)


# Cases


def setting_of(name: str, *, kubeconfig: str | None = None, shared: bool = False) -> Setting | None:
    """Return what a row's name says, CASE/NODES/MODE/SPECS, or with NODESxPODS; None where it is no case's."""
    found = _ROW_NAME.fullmatch(name)
    if found is None or found[1] not in cases.all_cases():
        return None
    case, nodes, pods, mode, specs = found.groups()
    return Setting(
        case=case,
        nodes=int(nodes),
        mode=mode,
        distinct=specs == "distinct",
        pods=int(pods) if pods else None,
        kubeconfig=kubeconfig,
        shared=shared,
    )


def case_row(name: str, setting: Setting, *, short: bool) -> Row:
    """Return the row of a case."""
    return Row(
        name=name,
        what=name,
        measure=partial(measure.measure, setting, short=short),
        targets=targets_of(name),
    )


def standard_names(
    *,
    short: bool,
    chosen: Callable[[str], bool],
    nodes: Sequence[int] = (),
    modes: Sequence[str] = (),
    specs: Sequence[str] = (),
    pods: int | None = None,
) -> Sequence[str]:
    """Return the names of the rows of the cases that are `chosen`, at the sizes asked for, or all that are usual."""
    names = []
    for name, case in cases.all_cases().items():
        usual: Sequence[int] = (1,) if case.has_one_size else _OWN_SIZES.get(name, _SIZES)
        kinds = specs or (SPECS[:1] if short or "Gang" in name else SPECS)
        for size in nodes or ((_SHORT_SIZE,) if short else usual):
            size_and_pods = f"{size}x{pods}" if pods else str(size)
            names += [f"{name}/{size_and_pods}/{mode}/{kind}" for mode in modes or ("cycle",) for kind in kinds]
    if not (nodes or modes or specs or pods):
        names += _MORE_SHORT if short else _MORE
    return [name for name in names if chosen(name.partition("/")[0])]


def named_rows(*, targets: bool, scale: bool, short: bool) -> Sequence[str]:
    """Return the names of the rows with `targets`, and those that show how figures grow with `scale`, in that order.

    `short` ones are of the same cases, at a size that proves no more than that all is there.
    """
    names = [*(ORDER if targets else ()), *(_SCALE if scale else ())]
    if short:
        names = [re.sub(r"/\d+(x\d+)?/", lambda found: f"/{_SHORT_SIZE}{_few(found[1])}/", name) for name in names]
    return list(dict.fromkeys(names))


def _few(pods: str | None) -> str:
    return f"x{_SHORT_SIZE}" if pods else ""


# Whatever is no case


def program_rows(*, short: bool) -> Sequence[Row]:
    """Return what is measured besides; `short` rows are so small that they prove no more than that they run."""
    large, pods = (500, 500) if short else (5000, 10_000)
    demo_pods = 500 if short else 8152
    simulated = 300 if short else 50_000
    return [
        *_client_rows(short=short),
        *_batch_rows(short=short),
        *_batch_latency_rows(short=short),
        *_topology_rows(short=short),
        *_cohort_rows(short=short),
        Row(
            name="waiting",
            what=f"{pods:,} pods wait at Permit, then all are allowed",
            measure=partial(waiting.waiting, 10 if short else 100, pods),
            targets={"waiting_mib": "<= 60 MiB", "seconds": "<= 1 s"},
        ),
        Row(
            name="backlog",
            what=f"{pods:,} equal pods wait in a full cluster of 100 nodes, and one pod ends each second",
            measure=partial(backlog.backlog, 100, pods),
            targets={"of_core": "<= 5 %"},
        ),
        *(
            Row(
                name=f"search{name}",
                what=f"search for victims: {large:,} full nodes, {what}",
                measure=partial(preemption.search, large, in_vain=in_vain),
                targets={"longest_hold_ms": "<= 50 ms"},
            )
            for name, what, in_vain in (("", "a tenth is enough", False), ("-in-vain", "none would do", True))
        ),
        Row(
            name="demo",
            what=f"demo over HTTP: 1,523 nodes, {demo_pods:,} pods",
            measure=partial(programs.demo, demo_pods),
            targets={"pods_per_second": ">= 400 pods/s", "peak_mib": "<= 300 MiB", "problems": "0"},
        ),
        Row(
            name="replay",
            what=f"Philly, {'40' if short else 'all 1,494'} jobs of vc1 on 24 nodes of 8 GPUs, in virtual time",
            measure=partial(programs.replay, 40 if short else None),
            targets={"seconds": "<= 8 s", "attempts": "<= 12,000"},
        ),
        Row(
            name="simulation",
            what=f"a day of plain pods in virtual time: {simulated:,} on {large:,} nodes of 8 GPUs",
            measure=partial(programs.simulation, simulated, large),
        ),
        Row(
            name="simulation-decisions",
            what=f"the same without an API server (`--fidelity decisions`): {simulated:,} pods on {large:,} nodes",
            measure=partial(programs.simulation, simulated, large, fidelity="decisions"),
            targets={"simulated_per_second": ">= 2,000 pods/s"},
        ),
        *_experiment_rows(short=short),
        Row(
            name="imports",
            what="imports, each in a new process",
            measure=partial(package.imports, 1 if short else 5),
            targets={"import_ms": "< 50 ms", "contract_import_ms": "< 400 ms"},
        ),
        Row(
            name="installed",
            what="an installation of kube-pyscheduler, without bytecode",
            measure=package.installed,
            targets={"package_mib": "<= 6 MiB", "libraries_mib": "<= 200 MiB"},
        ),
        Row(name="help", what="pyscheduler --help", measure=_help, targets={"seconds": "< 0.3 s"}),
        Row(
            name="ready",
            what=f"pyscheduler run until ready: {large:,} nodes",
            measure=partial(_ready, large),
            targets={"seconds": "< 3 s"},
        ),
    ]


def _batch_rows(*, short: bool) -> Sequence[Row]:
    """Return the passes of a batch profile; what KAI-Scheduler needs for them stands in `batch.KAI`."""
    shapes = [("reclaim-many", 100, 0.8), ("reclaim-many", 500, 12.0), ("reclaim-large", 500, 0.8)]
    shapes += [("reclaim-impossible", 100, 0.3), ("reclaim-impossible", 500, 0.5)]
    size, jobs, queues = (20, 20, 16) if short else (5000, 10_000, 1000)
    return [
        *(
            Row(
                name=f"batch-{shape}-{nodes}",
                what=f"{shape}({nodes}): one full pass of the preset kai",
                measure=partial(batch.reclaim, shape, 20 if short else nodes),
                targets={"cpu_seconds": f"<= {seconds:g} s"},
            )
            for shape, nodes, seconds in shapes
        ),
        *(
            Row(
                name=f"batch-four-queues{name}",
                what=f"four-queues({nodes}, {jobs}): {what}",
                measure=partial(batch.four_queues, kind, 20 if short else nodes, 40 if short else jobs),
                targets={"cpu_seconds": f"<= {seconds:g} s"},
            )
            for name, kind, nodes, jobs, what, seconds in (
                ("", "full", 100, 500, "one full pass, every other job runs", 0.05),
                ("-consolidation", "consolidation", 50, 200, "consolidation, every other job runs", 0.1),
                ("-gang", "gang", 50, 100, "one full pass, all jobs wait and have four pods", 0.04),
            )
        ),
        Row(
            name="batch-shares",
            what="fair shares of 1,000 queues in 4 levels, 3 resources",
            measure=partial(batch.fair_shares, 1000),
            targets={"shares_ms": "<= 4 ms"},
        ),
        Row(
            name="batch-many-queues",
            what=f"{queues:,} queues in 4 levels, {jobs:,} jobs of 8 pods on {size:,} nodes: decisions of one pass",
            measure=partial(batch.many_queues, size, jobs, queues),
            targets={"pods_per_second": ">= 2,000 pods/s"},
        ),
        Row(
            name="batch-full",
            what=f"{queues:,} queues in 4 levels, {jobs:,} jobs of 8 pods on {size:,} full nodes",
            measure=partial(batch.full_cluster, size, jobs, queues),
            targets={"first_pass_seconds": "<= 2 s", "freed_node_ms": "<= 20 ms"},
        ),
        Row(
            name="batch-idle",
            what=f"{jobs // 10:,} jobs of 8 pods wait on {size // 10:,} full nodes: an hour without changes",
            measure=partial(batch.idle, size // 10, jobs // 10, queues // 10 + 6),
            targets={"passes": "0", "cpu_seconds": "<= 0.1 s"},
        ),
        Row(
            name="batch-memory",
            what=f"a batch profile with {jobs:,} waiting jobs of 8 pods and {size:,} running jobs, between passes",
            measure=partial(batch.memory, size, jobs, queues),
            targets={"on_top_mib": "<= 40 MiB"},
        ),
    ]


def _batch_latency_rows(*, short: bool) -> Sequence[Row]:
    """Return how soon a batch profile decides."""
    nodes, repeats = (20, 4) if short else (2500, 300)
    workloads = 10 if short else 1000
    return [
        Row(
            name="batch-one-reclaim",
            what=f"a job of a starved queue arrives: {nodes * 8:,} candidates on {nodes:,} nodes, preset kai",
            measure=partial(batch_latency.one_reclaim, nodes, repeats),
            targets={"decision_p50_ms": "<= 50 ms", "decision_p99_ms": "<= 250 ms"},
        ),
        *(
            Row(
                name=f"batch-reclaim-impossible-apart-{size}",
                what=f"reclaim-impossible({size}), ten pods with anti-affinity over nine racks: one full pass",
                measure=partial(batch_latency.impossible, 20 if short else size),
                targets={"cpu_seconds": "<= 0.5 s", "passes": "0"},
            )
            for size in (100, 500)
        ),
        Row(
            name="batch-beside",
            what=f"pods arrive beside a busy batch profile: {nodes * 2:,} nodes, {nodes * 8:,} running pods, over HTTP",
            measure=partial(batch_holds.beside, nodes * 2, 2.0 if short else 60.0),
            targets={"longest_hold_ms": "<= 50 ms"},
        ),
        Row(
            name="batch-large-gang",
            what=f"pods arrive while a gang of {nodes * 2:,} pods is bound: {nodes:,} nodes, over HTTP, preset kai",
            measure=partial(batch_holds.large_gang, nodes, nodes * 2),
            targets={"longest_hold_ms": "<= 50 ms"},
        ),
        Row(
            name="batch-grouped",
            what=f"PodGrouper groups {workloads * 10:,} pods of {workloads:,} workloads: 1,000 nodes, over HTTP",
            measure=partial(batch_grouping.grouped, workloads),
            targets={"of_ready_groups": ">= 70 %"},
        ),
        Row(
            name="batch-philly",
            what=f"Philly, {'40' if short else 'all 1,494'} jobs of vc1 in four queues, preset kai, 24 nodes of 8 GPUs",
            measure=partial(batch_latency.replay, 40 if short else None, 4),
            targets={"seconds": "<= 15 s"},
        ),
    ]


def _experiment_rows(*, short: bool) -> Sequence[Row]:
    """Return the rows of experiments with many runs."""
    swept, seeds = (10, 1) if short else (300, 8)
    return [
        Row(
            name="sweep",
            what=f"`lab sweep` on two processes: {2 * seeds} cells of {swept} jobs of Philly's vc1",
            measure=partial(programs.sweep, swept, seeds),
            targets={"of_one_process": ">= 1.8"},
        ),
        Row(
            name="packing",
            what=f"openb inflated to 130 %, {'its first 300 tasks' if short else 'all tasks'}, under FGD: 1,213 nodes",
            measure=partial(programs.packing, "FGD", 300 if short else None),
            targets={"tasks_per_cpu_second": ">= 2,500 tasks/s"},
        ),
    ]


def _topology_rows(*, short: bool) -> Sequence[Row]:
    """Return what jobs and groups cost that require a topology domain."""
    nodes, gangs = (80, 2) if short else (5000, 60)
    full, repeats = (60, 2) if short else (2500, 60)
    return [
        Row(
            name="batch-topology-gangs",
            what=f"{gangs} gangs of 64 pods require a rack: {nodes:,} nodes in three levels, preset kai",
            measure=partial(batch_topology.gangs, nodes, gangs),
            targets={"pods_per_second": ">= 1,000 pods/s", "gang_ms": "<= 20 ms"},
        ),
        Row(
            name="topology-groups",
            what=f"{gangs} PodGroups of 64 pods with a topology constraint: {nodes:,} nodes, in memory",
            measure=partial(batch_topology.groups, nodes, gangs),
            targets={"pods_per_second": ">= 1,000 pods/s"},
        ),
        Row(
            name="batch-topology-reclaim",
            what=f"a whole rack is reclaimed: {full * 8:,} candidates on {full:,} nodes, preset kai",
            measure=partial(batch_topology.one_rack, full, repeats),
            targets={"decision_p99_ms": "<= 250 ms"},
        ),
        Row(
            name="batch-topology-impossible",
            what="reclaim-impossible(500) with required topology over twelve racks: one full pass",
            measure=partial(batch_topology.impossible, 120 if short else 500),
            targets={"cpu_seconds": "<= 0.5 s"},
        ),
        Row(
            name="batch-topology-http",
            what="a gang of 512 pods requires a block of racks: 500 nodes, over HTTP",
            measure=partial(batch_topology.over_http, 500, 64 if short else 512),
            targets={"seconds": "<= 5 s"},
        ),
    ]


def _cohort_rows(*, short: bool) -> Sequence[Row]:
    """Return Kueue's scalability test; a `short` row has 64 workloads and no targets."""
    return [
        Row(
            name=f"batch-{name}",
            what=f"Kueue's {name} over HTTP, in real time: {shape.told}",
            measure=partial(cohorts.measure, name, short=short),
            targets={} if short else shape.targets,
        )
        for name, shape in SHAPES.items()
    ]


def _help() -> dict[str, Any]:
    return {"seconds": programs.help_seconds(5)}


def _ready(nodes: int) -> dict[str, Any]:
    return {"seconds": programs.ready_seconds(nodes)}


def _client_rows(*, short: bool) -> Sequence[Row]:
    """Return the rows about the client path, over HTTP."""
    nodes, pods, created = (200, 800, 100) if short else (5000, 20_000, 600)
    few_nodes, few_pods = (50, 100) if short else (1000, 3000)
    size = f"{nodes:,} nodes, {pods:,} pods"
    calm = {"longest_hold_ms": "<= 50 ms", "peak_mib": "<= 400 MiB"}
    return [
        Row(
            name="reaction",
            what="an idle scheduler meets a pod: 1,000 nodes, over HTTP",
            measure=partial(client.reaction, 100 if short else 1000, created),
            targets={"reaction_p99_ms": "<= 20 ms"},
        ),
        Row(
            name="sync",
            what=f"first list over HTTP: {size}",
            measure=partial(client.sync, nodes, pods),
            targets={"sync_cpu_seconds": "<= 6 s", "peak_mib": "<= 400 MiB"},
        ),
        *(
            Row(
                name=f"relist{name}",
                what=f"relist while {created} pods arrive: {size}{what}",
                measure=partial(client.relist, nodes, pods, created, touch=touch),
                targets=calm,
            )
            for name, what, touch in (("", "", False), ("-changed", ", each of them changed", True))
        ),
        Row(
            name="memory",
            what=f"pods come and go: 500 nodes, {3 if short else 9} rounds of {created * 5:,} pods",
            measure=partial(client.memory, 500, 3 if short else 9, created * 5),
            targets={"growth_mib": "about 0"},
        ),
        *(
            Row(
                name=f"footprint{name}",
                what=f"pyscheduler run, {few_nodes:,} nodes, {few_pods:,} pods of 8 kB bound and running{what}",
                measure=partial(programs.footprint, few_nodes, few_pods, secure=bool(what)),
                targets={"peak_mib": "<= 120 MiB", "resident_mib": "<= 120 MiB"},
            )
            for name, what in (("", ""), ("-tls", ", over TLS"))
        ),
        Row(
            name="leadership",
            what="two replicas, leaseDuration 15s, retryPeriod 2s",
            # After a kill the lease has to run out first.
            measure=partial(programs.leadership, kill=not short),
            targets={"after_stop_seconds": "<= 2 s", "after_kill_seconds": "<= 17 s"},
        ),
    ]
