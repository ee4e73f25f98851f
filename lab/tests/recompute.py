"""Compute the results of `simulate --trace` again, from the Parquet files of bundles.

Usage: python recompute.py DIR, with the folder of a bundle or of a comparison. It prints one JSON object: the numbers
of each run by folder, and for a comparison with seeds the estimates by policy. It shares no code with the lab: it asks
DuckDB, and divides fair shares by sorting instead of by rounds.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

TABLES = ("jobs", "pods", "timeline", "nodes")

#: Facts that several queries need.
VIEWS = """
create table horizon as select max(t) as t from (
  select arrival_s as t from jobs union all select ended_s from jobs
  union all select bound_s from pods union all select left_s from pods);
create table span as select min(arrival_s) as b, coalesce(max(ended_s), (select t from horizon)) as e from jobs;
create table runs as
  select p.job, run, min(run_started_s) as s, coalesce(max(run_ended_s), (select t from horizon)) as e,
    coalesce(max(run_ended_s) < coalesce(max(ended_s), 'inf'::double), false) as lost
  from pods p join jobs j on j.job = p.job where run_started_s is not null group by p.job, run;
create table uses as
  select j.job, j.team, r.lost, j.gpus_per_worker as g, j.cpu_milli_per_worker as c,
    greatest(p.bound_s, p.run_started_s) as s,
    least(coalesce(p.left_s, (select t from horizon)), r.e) as e
  from pods p join runs r on r.job = p.job and r.run = p.run join jobs j on j.job = p.job
  where p.bound_s is not null and p.run_started_s is not null;
create table waits as
  select j.job, j.team, coalesce(ended_s, (select t from horizon)) - arrival_s
    - coalesce((select sum(e - s) from runs r where r.job = j.job), 0) as wait
  from jobs j;
create table done as
  select team, ended_s - arrival_s as jct, greatest((ended_s - arrival_s) / greatest(duration_s, 10), 1) as slowdown
  from jobs where ended_s is not null;
create table node_life as
  select *, greatest(least(coalesce(removed_s, 'inf'::double), span.e) - greatest(added_s, span.b), 0) as seconds
  from nodes, span;
create table waiting as
  with change as (
    select arrival_s as t, 1 as n from jobs where gpus_per_worker > 0
    union all select r.s, -1 from runs r join jobs j on j.job = r.job where j.gpus_per_worker > 0
    union all select r.e, 1 from runs r join jobs j on j.job = r.job where j.gpus_per_worker > 0 and r.lost),
  level as (select t, sum(sum(n)) over (order by t) as n from change group by t)
  select t as s, coalesce(lead(t) over (order by t), greatest(t, (select t from horizon))) as e, n from level;
create table free as
  with change as (
    select node, added_s as t, gpus as g, cpu_milli as c, memory_mib as m from nodes
    union all select node, removed_s, -gpus, -cpu_milli, -memory_mib from nodes where removed_s is not null
    union all select p.node, p.bound_s, -gpus_per_worker, -cpu_milli_per_worker, -memory_mib_per_worker
      from pods p join jobs j on j.job = p.job where p.node is not null
    union all select p.node, p.left_s, gpus_per_worker, cpu_milli_per_worker, memory_mib_per_worker
      from pods p join jobs j on j.job = p.job where p.node is not null and p.left_s is not null),
  state as (
    select node, t, sum(sum(g)) over w as g, sum(sum(c)) over w as c, sum(sum(m)) over w as m,
      lead(t) over w as until
    from change group by node, t window w as (partition by node order by t))
  select node, greatest(t, b) as s, least(coalesce(until, 'inf'::double), span.e) as e, g, c, m
  from state, span where g > 0.000001 and least(coalesce(until, 'inf'::double), span.e) > greatest(t, b);
create table shapes as
  select gpus_per_worker as g, cpu_milli_per_worker as c, memory_mib_per_worker as m,
    sum(workers) / (select sum(workers) from jobs where gpus_per_worker > 0) as part
  from jobs where gpus_per_worker > 0 group by all;
create table unusable as
  select s, e, g, g * coalesce((select sum(part) from shapes k
      where k.g > f.g + 0.000001 or k.c > f.c + 0.000001 or k.m > f.m + 0.000001), 0) as bad,
    coalesce((select sum(greatest(least(w.e, f.e) - greatest(w.s, f.s), 0)) from waiting w where w.n > 0), 0) as queued
  from free f;
"""

#: Query by column: one row with one value.
CELLS = {
    "jobs": "select count(*) from jobs",
    "finished": "select count(*) from done",
    **{
        f"wait_{name}_s": f"select {call} from waits"
        for name, call in {
            "mean": "avg(wait)",
            "p50": "quantile_cont(wait, 0.5)",
            "p90": "quantile_cont(wait, 0.9)",
            "p99": "quantile_cont(wait, 0.99)",
        }.items()
    },
    **{
        f"jct_{name}_s": f"select {call} from done"
        for name, call in {
            "mean": "avg(jct)",
            "p50": "quantile_cont(jct, 0.5)",
            "p90": "quantile_cont(jct, 0.9)",
            "p99": "quantile_cont(jct, 0.99)",
        }.items()
    },
    **{
        f"slowdown_{name}": f"select {call} from done"
        for name, call in {
            "mean": "avg(slowdown)",
            "p50": "quantile_cont(slowdown, 0.5)",
            "p90": "quantile_cont(slowdown, 0.9)",
            "p99": "quantile_cont(slowdown, 0.99)",
        }.items()
    },
    "fairness": "select case when count(*) > 1 then sum(x) ** 2 / (count(*) * sum(x * x)) end "
    "from (select avg(slowdown) as x from done group by team)",
    "gpu_utilisation": "select sum(greatest(least(u.e, span.e) - u.s, 0) * g) "
    "/ nullif((select sum(seconds * gpus) from node_life), 0) from uses u, span",
    "gpu_goodput": "select coalesce(sum(greatest(least(u.e, span.e) - u.s, 0) * g) filter (not lost), 0) "
    "/ nullif((select sum(seconds * gpus) from node_life), 0) from uses u, span",
    "cpu_utilisation": "select case when (select max(gpus_per_worker) from jobs) = 0 "
    "then sum(greatest(least(u.e, span.e) - u.s, 0) * c) "
    "/ nullif((select sum(seconds * cpu_milli) from node_life), 0) end from uses u, span",
    "free_waiting": "select sum(g * queued) / nullif((select sum(seconds * gpus) from node_life), 0) from unusable",
    "fragmentation": "select sum(bad * (e - s)) / nullif(sum(g * (e - s)), 0) from unusable",
    "unusable_waiting": """
      select sum(bad * queued) / nullif((select sum(seconds * gpus) from node_life), 0) from unusable""",
    "evicted_jobs": "select count(*) filter (lost) from runs",
    "lost_gpu_hours": "select coalesce(sum((e - s) * g) filter (lost), 0) / 3600 from uses",
    "partial_gpu_seconds": """
      select coalesce(sum(held_gpus * greatest(until - time_s, 0)), 0) from (
        select held_gpus, time_s, coalesce(lead(time_s) over (order by time_s), (select t from horizon)) as until
        from timeline)""",
    "gangs": "select count(*) from jobs where workers > 1",
    "gangs_scheduled": "select count(distinct r.job) from runs r join jobs j on j.job = r.job where workers > 1",
    "energy_kwh": """
      select case when count(idle_watts) > 0
        then (sum(seconds * idle_watts) + (
          select coalesce(sum(greatest(least(coalesce(left_s, (select t from horizon)), span.e)
            - greatest(bound_s, span.b), 0) * gpus_per_worker * n.gpu_watts), 0)
          from pods p join jobs j on j.job = p.job join nodes n on n.node = p.node and n.added_s <= p.bound_s
            and p.bound_s <= coalesce(n.removed_s, 'inf'::double), span)) / 3600000 end
      from node_life""",
    "makespan_s": "select e - b from span",
}


def open_bundle(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database with the tables of a bundle."""
    database = duckdb.connect(config={"threads": 1})
    for name in TABLES:
        database.execute(f"create table {name} as select * from read_parquet('{folder / name}.parquet')")
    database.execute(VIEWS)
    return database


def numbers_of(folder: Path) -> dict[str, Any]:
    """Return all numbers of one run."""
    database = open_bundle(folder)

    def value(query: str) -> Any:
        (found,) = database.execute(query).fetchone() or (None,)
        return found

    cells = {name: value(query) for name, query in CELLS.items()}
    waits = database.execute("select team, avg(wait) from waits group by team order by team").fetchall()
    unfinished = database.execute(
        "select outcome, reason, count(*) as n, first(message order by place) "
        "from (select *, row_number() over () as place from jobs) "
        "where outcome in ('waiting', 'never_ran') group by outcome, reason order by n desc, min(place)"
    ).fetchall()
    return {
        **cells,
        **share_error(database),
        "team_wait_mean_s": dict(waits),
        "unfinished": [{"outcome": a, "reason": b, "jobs": c, "message": d} for a, b, c, d in unfinished],
    }


def share_error(database: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return mean, 95th percentile and series of the share error; None for each without quotas."""
    quotas = dict(database.execute("select team, max(quota_gpus) from jobs group by team").fetchall())
    begin, end = database.execute("select b, e from span").fetchone() or (0, 0)
    (capacity,) = database.execute(
        "select sum(seconds * gpus) / (any_value(e) - any_value(b)) from node_life"
    ).fetchone() or (0,)
    if all(quota is None for quota in quotas.values()) or not capacity:
        return {"share_error_mean": None, "share_error_p95": None, "share_error_series": None}
    changes = database.execute(
        "select team, arrival_s, workers * gpus_per_worker, 0.0 from jobs "
        "union all select team, coalesce(ended_s, (select t from horizon)), -workers * gpus_per_worker, 0.0 from jobs "
        "union all select team, s, 0.0, g from uses union all select team, e, 0.0, -g from uses"
    ).fetchall()
    wanted, used = dict.fromkeys(quotas, 0.0), dict.fromkeys(quotas, 0.0)
    edges = sorted({begin, end, *(change[1] for change in changes if begin < change[1] < end)})
    pending = sorted(changes, key=lambda change: change[1])
    spans: list[tuple[float, float, float]] = []
    for start, until in pairwise(edges):
        while pending and pending[0][1] <= start:
            team, _, more, runs = pending.pop(0)
            wanted[team] += more
            used[team] += runs
        fair = shares(wanted, quotas, capacity)
        spans.append((start, until, sum(max(fair[team] - used[team], 0.0) for team in quotas) / capacity))
    total = end - begin
    mean = sum((until - start) * error for start, until, error in spans) / total
    seconds, p95 = 0.0, 0.0
    for start, until, error in sorted(spans, key=lambda span: span[2]):
        if seconds < total * 0.95:
            p95 = error
        seconds += until - start
    cuts = [begin + total * part / 48 for part in range(49)]
    series = [
        sum(max(min(until, b) - max(start, a), 0.0) * error for start, until, error in spans) / (b - a)
        for a, b in pairwise(cuts)
    ]
    return {"share_error_mean": mean, "share_error_p95": p95, "share_error_series": series}


def shares(wanted: dict[str, float], quotas: dict[str, float], capacity: float) -> dict[str, float]:
    """Divide a capacity by quota, up to what each team wants: those who want least per quota are served first."""
    found = dict.fromkeys(wanted, 0.0)
    rest, weight = capacity, sum(quotas.values())
    for team in sorted((team for team in wanted if quotas[team] > 0), key=lambda team: wanted[team] / quotas[team]):
        found[team] = min(wanted[team], rest * quotas[team] / weight)
        rest, weight = rest - found[team], weight - quotas[team]
    return found


@cache
def t_of(freedom: int) -> float:
    """Return the 97.5th percentile of Student's t: with x = sqrt(freedom) tan(a), the density of a is cos(a)^(n-1)."""
    angles = np.linspace(0, np.pi / 2, 400_001)
    density = np.cos(angles) ** (freedom - 1)
    area = np.append(0, np.cumsum(density[1:] + density[:-1]))
    return float(np.tan(np.interp(0.95 * area[-1], area, angles)) * np.sqrt(freedom))


def interval(values: list[float], name: str, prefix: str) -> dict[str, float]:
    """Return the mean, and the ends of its 95 % intervals by Student's t and by a percentile bootstrap."""
    array = np.array(values)
    found = {name: float(array.mean())}
    if len(array) < 2:
        return found
    half = t_of(len(array) - 1) * float(np.sqrt(((array - array.mean()) ** 2).sum() / (len(array) - 1) / len(array)))
    draws = np.random.default_rng(0).integers(0, len(array), (10_000, len(array)))
    means = np.sort(array[draws].mean(axis=1))
    low, high = (np.interp(part * (len(means) - 1), np.arange(len(means)), means) for part in (0.025, 0.975))
    found |= {f"{prefix}low": found[name] - half, f"{prefix}high": found[name] + half}
    return found | {f"{prefix}bootstrap_low": float(low), f"{prefix}bootstrap_high": float(high)}


def estimates_of(runs: list[dict[str, Any]], first: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return mean and interval of each column, and of the difference to the first policy."""
    names = [*CELLS, "share_error_mean", "share_error_p95"]
    found: dict[str, Any] = {}
    for name in names:
        values = [run[name] for run in runs if run[name] is not None]
        ends = ("low", "high", "bootstrap_low", "bootstrap_high")
        keys = ("mean", "difference", *ends, *(f"difference_{end}" for end in ends))
        estimate: dict[str, Any] = dict.fromkeys(keys)
        if values:
            estimate |= interval(values, "mean", "")
        if first is not None:
            pairs = [(a[name], b[name]) for a, b in zip(runs, first, strict=True)]
            steps = [a - b for a, b in pairs if a is not None and b is not None]
            if steps:
                estimate |= interval(steps, "difference", "difference_")
        found[name] = estimate
    return found


def main(folder: Path) -> dict[str, Any]:
    """Return the numbers of all runs in a folder, and the estimates by policy."""
    bundles = sorted(path.parent for path in folder.rglob("run.json"))
    runs = {path.relative_to(folder).as_posix(): numbers_of(path) for path in bundles}
    numbers: dict[str, Any] = {"runs": runs}
    if (folder / "comparison.json").is_file():
        policies: dict[str, list[dict[str, Any]]] = {}
        order = [Path(each["policy"]).stem for each in json.loads((folder / "comparison.json").read_text())["policies"]]
        for policy in order:
            seeds = sorted((folder / policy).glob("seed-*"), key=lambda path: int(path.name.partition("-")[2]))
            policies[policy] = [runs[path.relative_to(folder).as_posix()] for path in seeds]
        numbers["estimates"] = {
            policy: estimates_of(found, None if policy == order[0] else policies[order[0]])
            for policy, found in policies.items()
        }
    return numbers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1])), indent=1))
