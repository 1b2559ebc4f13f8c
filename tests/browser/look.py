"""Take a screenshot of the page: `python -m tests.browser.look PATH OUT.png`.

PATH may name an example run: `/runs/{failed}?tab=logs`. Examples: finished, failed, loop, parent, fork, cancelled,
waiting (for the signal `verdict`), queued (no worker), paused, running. Made when they are first named: hostile (every
text tries to break the page), short, long and million (20, 50,000 and 1,000,000 events, which takes 15 s), items
(100,000, one failed). `make page` builds the page first; the server
behind it is started when needed, notices a new build, and ends by itself.

Errors in the console, requests to other hosts and (with --axe) accessibility problems are printed; the exit code is
then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from string import Formatter

from tests.browser import look_server
from tests.browser.chromium import launched
from tests.browser.examples import ExampleRuns, add_settings
from tests.browser.hostile import start_hostile_run
from tests.browser.opening import PageOpener, Settling, accessibility_problems
from tests.browser.recorded import RECORDED, record
from tests.browser.serving import USERS, PageServer, database_in

RUNS = look_server.FOLDER / "data" / "runs.json"  # beside the database, and gone with it


def main() -> int:
    options = _options()
    if options.stop:
        look_server.stop()
        return 0
    server, ids = _prepare([name for _, name, _, _ in Formatter().parse(options.path) if name])
    path = options.path.format_map(ids)
    with launched() as browser:
        opener = PageOpener(browser, server)
        context = opener.context(None if options.role == "none" else options.role, options.theme, options.width)
        page = context.new_page()
        if options.height:
            page.set_viewport_size({"width": options.width, "height": options.height})
        settling = Settling(page)
        page.goto(server.url + path)
        settling.wait()
        for kind, value in options.steps or []:
            if kind == "click":
                page.click(value, timeout=5_000)
            elif kind == "press":
                page.keyboard.press(value)
            else:
                page.keyboard.type(value)
            settling.wait()
        page.screenshot(path=options.out, full_page=options.full, animations="disabled")
        problems = opener.errors + (accessibility_problems(page) if options.axe else [])
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{server.url}{path} -> {options.out}")
    return 1 if problems else 0


class _Step(argparse.Action):
    """Clicks, keys and texts, in the order of the command line."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        namespace.steps = [*(namespace.steps or []), ((option or "").strip("-"), values)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="look", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path", nargs="?", default="/", help="path of the page, with {EXAMPLE} for the id of a run")
    parser.add_argument("out", nargs="?", default=Path("look.png"), type=Path, help="PNG file to write")
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, help="default 900, or 844 at a width of 390")
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--role", choices=[*USERS, "none"], default="admin", help="whose session; none: signed out")
    parser.add_argument("--full", action="store_true", help="the whole page, not only what the window shows")
    parser.add_argument("--axe", action="store_true", help="report accessibility problems")
    parser.add_argument("--click", dest="steps", action=_Step, metavar="SELECTOR", help="click it first; repeatable")
    parser.add_argument("--press", dest="steps", action=_Step, metavar="KEY", help="press a key first; repeatable")
    parser.add_argument("--type", dest="steps", action=_Step, metavar="TEXT", help="type a text first; repeatable")
    parser.add_argument("--stop", action="store_true", help="stop the server in the background")
    return parser.parse_args()


def _prepare(names: list[str]) -> tuple[PageServer, dict[str, str]]:
    """The server, and ids of the example runs and of the named ones; what is missing is made."""
    known: dict[str, str] = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    missing = [name for name in names if name not in known]
    if recorded := [name for name in missing if name in RECORDED]:
        look_server.stop()
        record(database_in(look_server.FOLDER), *recorded)
        known |= {name: RECORDED[name].execution for name in recorded}
    server = look_server.running_server()
    if "hostile" in missing:
        known["hostile"] = start_hostile_run(server.api)
    examples = ExampleRuns(server.api, known)
    if "finished" not in known:
        add_settings(server.api)
    known |= dict(examples)
    RUNS.write_text(json.dumps(known))
    return server, known


if __name__ == "__main__":
    sys.exit(main())
