"""Writes the generated files, below docs/ and ui/src/api/: `make docs`.

Everything in them comes from the tables that the program itself uses, or from examples that the tests run, so a file
cannot describe behaviour that does not exist. tests/test_docs.py fails when a file on disk is out of date.
"""

from __future__ import annotations

from tools.docs.generate import write

if __name__ == "__main__":
    write()
