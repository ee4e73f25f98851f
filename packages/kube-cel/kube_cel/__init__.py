"""The Common Expression Language, as Kubernetes 1.36 evaluates it.

Belongs here: the language (`parser`, `macros`, `checker`, `plan`), its functions (`library`, `library_kubernetes`), and
the bounds on what an expression may use (`meter`). Does not belong here: what an object or a device is; any I/O; any
clock.

`compile_expression` returns a `Program`, which evaluates with values for its variables. Both take a `Meter`, which
counts cost, memory and steps: nothing that a stranger writes takes much memory, or keeps its caller from the pauses
that the meter makes.
"""

from __future__ import annotations

from kube_cel.errors import (
    CelCancelledError as CelCancelledError,
    CelCompileError as CelCompileError,
    CelError as CelError,
    CelInternalError as CelInternalError,
)
from kube_cel.meter import MAX_COST as MAX_COST, MAX_MEMORY as MAX_MEMORY, QUANTUM as QUANTUM, Meter as Meter
from kube_cel.program import Program as Program, compile_expression as compile_expression
from kube_cel.types import ANY as ANY
from kube_cel.values import from_json as from_json
