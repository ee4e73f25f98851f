"""Write the generated files of the Helm chart, or list those that are out of date."""

from __future__ import annotations

import sys

from deploy.monitoring.files import FOLDER, generated


def main() -> int:
    """Write the files with `--write`; without, return 1 if some differ."""
    different = []
    for name, text in generated().items():
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        different.append(name)
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in different:
        sys.stdout.write(f"{name}\n")
    return 0 if "--write" in sys.argv[1:] or not different else 1


if __name__ == "__main__":
    sys.exit(main())
