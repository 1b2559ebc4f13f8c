"""The filter of system calls, run here instruction by instruction for both machines; test_sandbox.py has the kernel."""

from __future__ import annotations

import re
import struct
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest

from noetl.tools.process.seccomp import ALLOW, ERROR, FILTERED, MACHINES, REFUSED, filter_program

HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}


def answer(machine: str, number: int, *args: int, network: bool = False, architecture: int | None = None) -> int:
    """What the kernel would do with a call, as a value of seccomp."""
    program = filter_program(network=network, machine=machine)
    code = [struct.unpack_from("<HBBI", program, place) for place in range(0, len(program), 8)]
    padded = [*args, *[0] * (6 - len(args))]
    data = struct.pack("<iIQ6Q", number, MACHINES[machine][1] if architecture is None else architecture, 0, *padded)
    place, register = 0, 0
    while True:
        operation, yes, no, value = code[place]
        place += 1
        match operation:
            case 0x20:
                (register,) = struct.unpack_from("<I", data, value)
            case 0x15:
                place += yes if register == value else no
            case 0x35:
                place += yes if register >= value else no
            case 0x45:
                place += yes if register & value else no
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(operation)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def number_of(machine: str, name: str) -> int | None:
    return (REFUSED | FILTERED)[name][MACHINES[machine][0]]


@pytest.mark.parametrize("network", [False, True])
def test_calls_of_the_table_are_refused_and_all_others_pass(machine: str, network: bool) -> None:
    refused = {number for name in REFUSED if (number := number_of(machine, name)) is not None}
    special = {number_of(machine, name) for name in FILTERED}
    for number in range(600):
        if number not in special:
            expected = ERROR | EPERM if number in refused else ALLOW
            assert answer(machine, number, network=network) == expected, number


def test_threads_and_processes_can_be_made_and_namespaces_not(machine: str) -> None:
    clone, clone3 = number_of(machine, "clone"), number_of(machine, "clone3")
    assert clone is not None
    assert clone3 is not None
    assert answer(machine, clone, 0x11) == ALLOW  # SIGCHLD: fork
    assert answer(machine, clone, 0x3D0F00) == ALLOW  # a thread
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, clone, flag | 0x11) == ERROR | EPERM
    assert answer(machine, clone3) == ERROR | ENOSYS


def test_sockets(machine: str) -> None:
    socket = number_of(machine, "socket")
    assert socket is not None
    for family in range(50):
        assert answer(machine, socket, family, 2) == (ALLOW if family in (1, 16) else ERROR | EPERM)
        assert answer(machine, socket, family, 2, network=True) == ALLOW


def test_times_can_be_set_of_open_files_only(machine: str) -> None:
    utimensat = number_of(machine, "utimensat")
    assert utimensat is not None
    assert answer(machine, utimensat, 3, 0) == ALLOW
    for pointer in (1, 0x7FFF_0000_0000, 0x1_0000_0000):
        assert answer(machine, utimensat, 3, pointer) == ERROR | EPERM


def test_calls_of_other_architectures_are_refused(machine: str) -> None:
    assert answer(machine, 0, architecture=0x40000003) == ERROR | EPERM
    assert answer(machine, 0x40000000) == ERROR | EPERM


def test_numbers_are_those_of_the_system(machine: str) -> None:
    file, pattern = HEADERS[machine]
    if not file.exists():
        pytest.skip(f"this machine has no {file}")
    known = {name: int(number) for name, number in re.findall(pattern, file.read_text())}
    compared = 0
    for name in REFUSED | FILTERED:
        number = number_of(machine, name)
        if name in known:
            assert number == known[name], name
            compared += 1
        else:
            assert number is None or number >= 440, f"{name} is in no header"
    assert compared > 40
