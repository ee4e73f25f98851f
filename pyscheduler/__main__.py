"""`python -m pyscheduler`."""

from __future__ import annotations

from pyscheduler.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
