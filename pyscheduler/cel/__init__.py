"""The Common Expression Language, as Kubernetes 1.36 evaluates it in device selectors.

Belongs here: the language (`parser`, `macros`, `checker`, `plan`), its functions (`library`, `library_kubernetes`), and
the bounds on what an expression may use (`meter`). Does not belong here: what a device is; any I/O; any clock.

`compile_expression` returns a `Program`, which evaluates with values for its variables. Both take a `Meter`, which
counts cost, memory and steps: nothing that a stranger writes takes much memory, or keeps its caller from the pauses
that the meter makes.
"""

from __future__ import annotations

from pyscheduler.cel.errors import (
    CelCancelledError as CelCancelledError,
    CelCompileError as CelCompileError,
    CelError as CelError,
    CelInternalError as CelInternalError,
)
from pyscheduler.cel.meter import MAX_COST as MAX_COST, MAX_MEMORY as MAX_MEMORY, QUANTUM as QUANTUM, Meter as Meter
from pyscheduler.cel.program import Program as Program, compile_expression as compile_expression
