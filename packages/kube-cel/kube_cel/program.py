"""`compile_expression` compiles an expression to a `Program`, which can be evaluated many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kube_cel.checker import check
from kube_cel.errors import CelCancelledError, CelCompileError, CelError, CelInternalError
from kube_cel.parser import parse
from kube_cel.plan import Planner
from kube_cel.types import ANY, BOOL, name_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kube_cel.meter import Meter
    from kube_cel.syntax import Node
    from kube_cel.types import Type

__all__ = ["Program", "compile_expression"]


@attrs.frozen(eq=False)
class Program:
    """An expression that can be evaluated; `type` is that of its value, `root` its tree."""

    type: Type
    root: Node
    #: How many variables an evaluation has, those of its macros included.
    slots: int
    run: Callable[[Meter], Any]

    def evaluate(self, values: Sequence[object], meter: Meter) -> Any:
        """Return the value of the expression, given those of its variables.

        Raise `CelError` where the evaluation fails, `CelInternalError` where it does so at once: for
        `CelCancelledError` it took too much.
        """
        meter.slots = [*values, *[None] * (self.slots - len(values))]
        try:
            value = self.run(meter)
        except CelError:
            if meter.cost > meter.limit:
                raise CelCancelledError from None
            raise
        except RecursionError:
            raise CelInternalError("internal error: expression nests too deeply") from None
        if meter.cost > meter.limit:
            raise CelCancelledError
        return value


def compile_expression(source: str, variables: Mapping[str, Type], meter: Meter, *, plain: bool = False) -> Program:
    """Return the program of an expression that answers yes or no, or with `plain` of any expression.

    `variables` are the names that it may use, with their types. Raise `CelCompileError`.
    """
    try:
        root = parse(source, meter)
        type_ = check(root, source, variables, meter)
    except CelCompileError as error:
        raise CelCompileError(f"compilation failed: {error}") from None
    except RecursionError:
        raise CelCompileError("compilation failed: expression nests too deeply") from None
    if type_ is not BOOL and type_ is not ANY and not plain:
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {name_type(type_)}")
    planner = Planner(tuple(variables), meter)
    try:
        run = planner.plan(root).run
    except CelInternalError as error:
        if isinstance(error, CelCancelledError):
            raise
        raise CelCompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CelCompileError("program instantiation failed: expression nests too deeply") from None
    return Program(type_, root, planner.slots, run)
