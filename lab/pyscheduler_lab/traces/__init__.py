"""Traces of jobs: the model of a job, the schema of trace files, and readers of other forms.

Belongs here: whatever turns a file into jobs. Does not belong here: nodes (`clusters`), and what runs the jobs
(`simulation`).
"""

from __future__ import annotations

from pyscheduler_lab.traces.job import Job as Job
from pyscheduler_lab.traces.trace import Trace as Trace
