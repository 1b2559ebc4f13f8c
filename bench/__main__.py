"""Runs every benchmark and prints one table."""

from __future__ import annotations

from bench import engine, footprint, http, language, past, redaction, server, stalls, transfer, verify
from bench.measure import print_figures


def main() -> None:
    for part in (language, engine, verify, past, http, redaction, transfer, footprint, server, stalls):
        print_figures(part.figures())


if __name__ == "__main__":
    main()
