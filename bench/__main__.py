"""Runs every benchmark and prints one table."""

from __future__ import annotations

from bench import engine, language
from bench.measure import print_figures


def main() -> None:
    print_figures(language.figures())
    print_figures(engine.figures())


if __name__ == "__main__":
    main()
