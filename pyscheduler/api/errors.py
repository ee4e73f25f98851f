"""The base of all errors of pyscheduler, and the errors of this package.

The innermost room owns the base class, so that each room can derive its own errors from it and a caller can
catch all of them with one name. An error here means that a person or a peer supplied something unusable; the
text says what was wrong, where, and what would be accepted.
"""

from __future__ import annotations


class PySchedulerError(Exception):
    """Report a mistake that a user can mend; the message is one line and complete.

    Commands print it without a traceback. A bug raises some other exception.
    """


class QuantityError(PySchedulerError, ValueError):
    """Report a text that the API server would refuse as a resource quantity."""


class SelectorError(PySchedulerError, ValueError):
    """Report a label, field or node selector that cannot be evaluated."""


class DecodeError(PySchedulerError, ValueError):
    """Report bytes from the wire that are not the object they should be."""
