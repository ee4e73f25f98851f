"""The Common Expression Language (CEL), as Kubernetes 1.36 evaluates it.

`compile_expression` returns a `Program`, which evaluates the expression with values for its variables. Compilation and
evaluation take a `Meter`, which limits cost and memory, and lets the caller limit the time.
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
