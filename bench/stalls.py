"""How long a server leaves others without an answer while it is given something expensive, and what memory that takes.

Each stall is a playbook or a request that once kept a server busy for seconds or for ever. Beside it `/livez` is asked
again and again, each time on a new connection; the longest wait is the figure. `python -m bench.stalls` runs it alone.
"""

from __future__ import annotations

import http.client
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.acceptance.modes import stage
from tests.acceptance.modes.stage import Served
from tests.hostile.documents import DOCUMENTS, Size

from bench.measure import Figure, print_figures

LIVEZ_SECONDS = 0.25
JUDGING_SECONDS = 0.1  # while texts are judged, which happens in other processes
PROBE_SECONDS = 0.02
STALL_SECONDS = 60
MEMORY_MB = 400
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: stall, path: bench/stall}\n"
NOOP = "  - {step: b, tool: {kind: noop}}\n"
SHARED_LIST = "{{ " + "[" * 12 + "1" + "]*9" * 12 + " }}"
RUNNING_GUARD = "{{ (range(12000) | map('string') | list | length) < 0 }}"
STRIPPED = "{{ ('\\u0100' * 262144).lstrip('\\u0200' * 120000 ~ '\\u0100') == '' }}"


def workload(template: str) -> str:
    return f'{HEAD}workload: {{x: "{template}"}}\nworkflow:\n{NOOP}'


def arc_args(template: str) -> str:
    arc = f'{{step: b, args: {{x: "{template}"}}}}'
    return f"{HEAD}workflow:\n  - {{step: a, tool: {{kind: noop}}, next: {{arcs: [{arc}]}}}}\n{NOOP}"


def guards(template: str, count: int, values: str = "{}") -> str:
    arcs = "".join(f'        - {{step: b, when: "{template}"}}\n' for _ in range(count))
    step = f"  - step: a\n    tool: {{kind: noop}}\n    next:\n      arcs:\n{arcs}"
    return f"{HEAD}workload: {values}\nworkflow:\n{step}{NOOP}"


def references(count: int) -> str:
    """One guard that looks into many stored values of 7.6 MB."""
    steps = "".join(
        f'  - {{step: s{i}, tool: {{kind: python, code: "result = [[{i}]] * 1900000"}}, '
        f"next: {{arcs: [{{step: s{i + 1}}}]}}}}\n"
        for i in range(count)
    )
    lengths = " + ".join(f"(steps.s{i}.result | length)" for i in range(count))
    arc = f"{{step: b, when: '{{{{ {lengths} > 5 }}}}'}}"
    last = f"  - {{step: s{count}, tool: {{kind: noop}}, next: {{arcs: [{arc}]}}}}\n"
    return f"{HEAD}workflow:\n{steps}{last}{NOOP}"


def started(text: str, payload: dict[str, Any] | None = None) -> Callable[[Served], str]:
    """Start a playbook, and wait until it has ended or the time is over."""

    def stall(mode: Served) -> str:
        body = {"playbook": text, "payload": payload or {}}
        answer = _post(mode, "/executions", body, {"Prefer": f"wait={STALL_SECONDS}"})
        return str(answer.get("status") or answer.get("title"))

    return stall


def validated(mode: Served) -> str:
    text = f'{HEAD}workload: {{a: "{("{{1}} " * 10_900).strip()}"}}\nworkflow:\n{NOOP}'
    return "valid" if _post(mode, "/playbooks/validate", text).get("valid") else "refused"


JUDGED = (
    "as many steps as there may be",
    "steps that name the one before",
    "many templates",
    "rules of one task",
    "unknown keys of steps",
    "ten layers of 38",
    "line breaks",
)


def judged(mode: Served) -> str:
    """Validate and register the most expensive documents of 1 MiB, one after the other."""
    refused = 0
    for name in JUDGED:
        text = DOCUMENTS[name](Size())
        answer = _post(mode, "/playbooks/validate?with=graph,names,form", text)
        refused += any(problem["code"] == "NTL010" for problem in answer["problems"])
        _post(mode, "/playbooks", text)
    return f"with {refused} of {len(JUDGED)} too expensive"


def looked_at_after_restart(mode: Served) -> str:
    """A viewer's look at an execution makes a server compile its playbook, which is expensive."""
    wait = "  - {step: a, tool: {kind: wait, signal: go}}\n"
    text = f'{HEAD}workload: {{a: "{("{{1}} " * 6_000).strip()}"}}\nworkflow:\n{wait}'
    execution = _post(mode, "/executions", {"playbook": text})["execution_id"]
    server = mode.servers[0]
    assert server.stop() == 0
    server.start().until_said("noetl server at")
    return str(mode.client.show(execution)["status"])


def one_line_of_a_long_log(mode: Served) -> str:
    """A viewer asks for one line of 60 MB."""
    command = "head -c 12000000 /dev/zero | tr '\\\\0' x | fold -w 1000"
    loop = "{in: [1, 2, 3, 4, 5], iterator: i}"
    step = f'  - {{step: a, loop: {loop}, tool: {{kind: shell, command: "{command}"}}}}\n'
    ended = mode.run(f"{HEAD}workflow:\n{step}", {})
    for _ in range(6):
        mode.client.ask("GET", f"/executions/{ended['execution_id']}/logs?limit=1")
    return str(ended["status"])


JUDGING = "validate and register of texts of 1 MiB"
STALLS: dict[str, Callable[[Served], str]] = {
    "nothing": lambda mode: "idle",
    "a list of 9^12 shared nodes in the workload": started(workload(SHARED_LIST)),
    "a list of 9^12 shared nodes in the args of an arc": started(arc_args(SHARED_LIST)),
    "800 guards of 30 ms": started(guards(RUNNING_GUARD, 800)),
    "2,200 guards that search a text of 7 MB": started(
        guards("{{ workload.n in workload.s }}", 2_200, "{n: x, s: y}"),
        {"n": "a" * 45 + "c" + "a" * 45, "s": "a" * 7_000_000},
    ),
    "strip with a long set of characters": started(guards(STRIPPED, 1)),
    "ten stored values of 7.6 MB in one guard": started(references(10)),
    "validate of an expensive text": validated,
    JUDGING: judged,
    "a look at an execution of an expensive text": looked_at_after_restart,
    "one line of a log of 60 MB": one_line_of_a_long_log,
}


def figures() -> Iterator[Figure]:
    yield Figure("longest wait for /livez, and the server's peak memory, beside", "")
    for name, stall in STALLS.items():
        with tempfile.TemporaryDirectory() as folder:
            db = str(Path(folder) / "data" / "noetl.db")
            with stage.served(Path(folder), db, 1, 1) as mode:
                yield from _measured(name, stall, mode)


def _measured(name: str, stall: Callable[[Served], str], mode: Served) -> Iterator[Figure]:
    with Probe(mode.client.urls[0]) as probe:
        time.sleep(1)
        outcome = stall(mode)
        time.sleep(0.5)
    peak = _peak_mb(mode)
    most = JUDGING_SECONDS if name == JUDGING else LIVEZ_SECONDS
    yield Figure(f"  {name}", f"{probe.longest * 1000:,.0f} ms", f"at most {most * 1000:g} ms", probe.longest <= most)
    yield Figure(f"    ends {outcome}; memory", f"{peak:,} MB", f"under {MEMORY_MB} MB", peak < MEMORY_MB)


class Probe:
    """Asks `/livez` in a thread of its own. A server that is away on purpose does not count, a silent one does."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url)
        self.longest = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Probe:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        while not self.over.wait(PROBE_SECONDS):
            began = time.monotonic()
            connection = http.client.HTTPConnection(
                str(self.address.hostname), self.address.port, timeout=STALL_SECONDS
            )
            try:
                connection.request("GET", "/livez")
                connection.getresponse().read()
            except ConnectionError:
                continue
            finally:
                connection.close()
            self.longest = max(self.longest, time.monotonic() - began)


def _post(mode: Served, path: str, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
    kind = "application/yaml" if isinstance(body, str) else "application/json"
    content = {"content": body.encode()} if isinstance(body, str) else {"json": body}
    response = mode.client.http.post(
        f"{mode.client.urls[0]}/api/v1{path}", headers={**(headers or {}), "Content-Type": kind}, **content
    )
    answer: dict[str, Any] = response.json()
    return answer


def _peak_mb(mode: Served) -> int:
    process = mode.servers[0].process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    print_figures(figures())
