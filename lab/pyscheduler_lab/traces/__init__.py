"""Traces of jobs: the model of a job, the schema of trace files, and readers of other file formats."""

from __future__ import annotations

from pyscheduler_lab.traces.job import Job as Job
from pyscheduler_lab.traces.trace import Trace as Trace
