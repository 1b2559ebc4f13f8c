"""Feeds a target with changed inputs: `python -m tests.hostile.fuzz TARGET [SECONDS] [SEED]`.

Where atheris is installed (`pip install atheris`; it is no dependency), it chooses inputs by the code that they reach.
Otherwise inputs are changed at random. An input that is a defect is stored in tests/hostile/crashes, which `make test`
replays for ever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

MAX_BYTES = 4096
SECONDS = 60.0


def changed(random: Random, data: bytes, words: list[bytes]) -> bytes:
    """The input with a part removed, doubled, replaced or put elsewhere."""
    at, size = random.randrange(len(data) + 1), random.randrange(1, 9)
    match random.randrange(6):
        case 0:
            return data[:at] + data[at + size :]
        case 1:
            return data[:at] + data[at : at + size * 4] * 2 + data[at + size * 4 :]
        case 2:
            return data[:at] + random.randbytes(size) + data[at + size :]
        case 3:
            return data[:at] + random.choice(words or [b"a"]) + data[at:]
        case 4:
            other = random.randrange(len(data) + 1)
            return data[:at] + data[other : other + size * 8] + data[at:]
        case _:
            return (
                data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :] if at < len(data) else data
            )


def inputs(name: str, seed: int) -> Iterator[bytes]:
    """Changed inputs for a target without an end, the same ones for the same seed."""
    from tests.hostile.targets import seeds_of, words_of

    random, words, seeds = Random(seed), words_of(name), list(seeds_of(name))
    while True:
        data = random.choice(seeds)
        for _ in range(random.randrange(1, 8)):
            data = changed(random, data, words)[:MAX_BYTES]
        yield data


def store_crash(name: str, data: bytes) -> Path:
    from tests.hostile.targets import CRASHES

    CRASHES.mkdir(exist_ok=True)
    file = CRASHES / f"{name}-{sha256(data).hexdigest()[:16]}"
    file.write_bytes(data)
    return file


def fuzz(name: str, seconds: float, seed: int) -> int:
    """Feed a target for a time; the number of inputs. A defect is raised after its input was stored."""
    from tests.hostile.targets import TARGETS

    end, count = time.monotonic() + seconds, 0
    for data in inputs(name, seed):
        if time.monotonic() > end:
            break
        count += 1
        try:
            TARGETS[name](data)
        except BaseException:
            print(f"{name}: seed {seed}, input {count}: stored as {store_crash(name, data)}", file=sys.stderr)
            raise
    return count


def fuzz_by_coverage(name: str, seconds: float, seed: int) -> None:
    """The same with atheris, which ends the process."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["noetl"]):
        from tests.hostile.targets import CRASHES, TARGETS, seeds_of
    CRASHES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for number, data in enumerate(seeds_of(name)):
            (Path(folder) / str(number)).write_bytes(data)
        limits = [f"-max_total_time={seconds:.0f}", f"-seed={seed}", f"-max_len={MAX_BYTES}", "-timeout=60"]
        atheris.Setup([name, *limits, f"-artifact_prefix={CRASHES}/{name}-", "-verbosity=0", folder], TARGETS[name])
        atheris.Fuzz()


def main(name: str, seconds: str = str(SECONDS), seed: str = "") -> None:
    number = int(seed) if seed else int(time.time())
    print(f"{name}: seed {number}", flush=True)
    if find_spec("atheris") is not None:
        fuzz_by_coverage(name, float(seconds), number)
    else:
        print(f"{name}: {fuzz(name, float(seconds), number):,} inputs")


if __name__ == "__main__":
    main(*sys.argv[1:])
