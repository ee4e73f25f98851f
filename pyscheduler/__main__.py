"""`python -m pyscheduler`."""

from __future__ import annotations

from kube_pyscheduler import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
