"""Writes the files that examples/many_files.yaml reads. Needs only Python.

python examples/readings.py            2,000 files in readings/, eight of them damaged
python examples/readings.py mend       repairs the damaged ones
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FILES = 2_000
DAMAGED = range(7, FILES, 250)


def main() -> None:
    mended = sys.argv[1:] == ["mend"]
    folder = Path("readings")
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        text = json.dumps({"sensor": number % 5, "values": [number, number + 1]})
        broken = number in DAMAGED and not mended
        (folder / f"{number:04}.json").write_text(text[:-3] if broken else text, "utf-8")


if __name__ == "__main__":
    main()
