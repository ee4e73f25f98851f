"""The page about results of simulations has the definitions of the code."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.clusters.failures import read_failures
from pyscheduler_lab.results.columns import cells_of
from pyscheduler_lab.results.runs import Run, Workload, play
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import policy_named
from pyscheduler_lab.traces import Job
from tests import lab_columns_page


@pytest.fixture
def elastic(tmp_path: Path) -> Run:
    """Replay an elastic job that keeps its minimum on the first node after the second one is removed."""
    (tmp_path / "failures.yaml").write_text("events:\n- {at: 100, remove: node-1}\n")
    cluster = Cluster.read("2x8gpu")
    jobs = [Job(name="a", arrival=0, duration=1000, workers=2, min_workers=1, gpus=8)]
    failures = read_failures(tmp_path / "failures.yaml", cluster)
    settings = RunSettings(trace="jobs", nodes="nodes", policy="default", fidelity="decisions")
    return play(Workload(jobs=jobs, cluster=cluster, teams=(), failures=failures), policy_named("default"), settings)


def test_page_has_the_columns_of_the_code() -> None:
    """Names, units and meanings are those of the code; `python -m tests.lab_columns_page --write` makes them anew."""
    assert lab_columns_page.text() == lab_columns_page.PAGE.read_text(encoding="utf-8")


def test_expression_of_the_page_is_the_utilisation(elastic: Run) -> None:
    """Also for an elastic job with an evicted pod."""
    (query,) = re.findall(r"```sql\n(.+?)```", lab_columns_page.PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with duckdb.connect() as database:
        for name, table in elastic.tables.items():
            database.register(name, table)
        ((found,),) = database.execute(query).fetchall()
    assert found == pytest.approx(cells_of(elastic.measures)["gpu_utilisation"], abs=1e-6)
    assert found == pytest.approx((1000 + 100) / (1000 + 100), abs=0.01)


def test_pods_of_an_elastic_job_have_their_run_and_outcome(elastic: Run) -> None:
    """An evicted pod has the end of the run, which went on without it; a pod that was never bound stays pending."""
    rows = [(row["outcome"], row["run"], row["run_ended_s"]) for row in elastic.tables.pods.to_pylist()]
    assert sorted(rows) == [("evicted", 1, 1000.0), ("finished", 1, 1000.0), ("pending", 1, 1000.0)]
