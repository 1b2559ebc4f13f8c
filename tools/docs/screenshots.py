"""Writes screenshots of the page to `docs/img`, for README and the tutorial; `make docs` does it when the page changes.

Each view is drawn light at 1440 pixels and dark at 390, on the example runs of the browser tests and a recorded one.
The clocks of the server and the browser are set, so the screenshots show the same times of day whenever they are taken.
The milliseconds of the examples are measured, so no test compares the screenshots; `docs/img/source.txt` says which
page they show, and `make check` warns if the page has changed since.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path

from PIL import Image
from tests.acceptance.modes.stage import Client, Process, until
from tests.browser.chromium import launched
from tests.browser.examples import PLAYBOOKS, ExampleRuns, add_settings
from tests.browser.opening import PageOpener, Settling, Theme
from tests.browser.serving import PageServer, database_in, page_server

from tools.docs import set_clock
from tools.docs.catalogue_run import PLAYBOOK, record_catalogue
from tools.docs.set_clock import set_time
from tools.page import PAGE, SCREENSHOTS_SOURCE, STAMP

IMAGES = Path(__file__).parents[2] / "docs" / "img"
THEMES: dict[Theme, tuple[str, int]] = {"light": ("", 1440), "dark": ("-dark", 390)}
"""With what the name of the file ends, and the width."""
COLOURS, FREQUENT_COLOURS = 256, 192
START, PICTURE = (datetime(2026, 9, 15, 9, minute, tzinfo=UTC).timestamp() for minute in (30, 58))
"""When the first example starts, and when the screenshots are taken."""
EXAMPLES = ("finished", "failed", "loop", "parent", "fork", "cancelled", "waiting", "queued", "paused")
EXAMPLE_SECONDS = 97.0
"""From the start of an example to the next one."""
VIEWS = {
    "runs": "/runs",
    "run": "/runs/{catalogue}?tab=items&run=copy%231&status=failed",
    "run-waiting": "/runs/{waiting}",
    "failure": "/runs/{failed}?step=order&tab=logs",
    "history": "/runs/{finished}?at=21&step=price&tab=events",
    "timeline": "/runs/{finished}",
    "data": "/runs/{finished}?tab=data",
    "items": "/runs/{loop}?tab=items&run=resize%231",
    "respond": "/runs/{waiting}",
    "fork": "/runs/{failed}/fork?at=12",
    "compare": "/compare/{failed}/{repaired}",
    "playbooks": "/playbooks",
    "editor": "/edit/shop/orders",
    "start": "/start/shop/orders",
    "schedules": "/schedules/nightly",
    "workers": "/workers",
}
CLICKS = {"respond": "Respond...", "fork": "Edited"}
"""A button that is pressed before the screenshot is taken."""


def main() -> None:
    built_from = (PAGE / STAMP).read_text("utf-8")
    if SCREENSHOTS_SOURCE.exists() and SCREENSHOTS_SOURCE.read_text("utf-8") == built_from:
        return
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        clock = Path(folder) / "clock"
        set_time(clock, START)
        catalogue = record_catalogue(database_in(Path(folder)), PICTURE)
        with page_server(Path(folder), _process_with(clock)) as server:
            ids = {"catalogue": catalogue, **_examples(server.api, clock)}
            set_time(clock, PICTURE, stopped=True)
            until(lambda: _server_time(server) == PICTURE)
            opener = PageOpener(browser, server)
            for theme, (ending, width) in THEMES.items():
                for name, path in VIEWS.items():
                    content = _screenshot(opener, path.format_map(ids), theme, width, CLICKS.get(name))
                    (IMAGES / f"{name}{ending}.png").write_bytes(content)
            opener.check()
    SCREENSHOTS_SOURCE.write_text(built_from, "utf-8")


def _process_with(clock: Path) -> type[Process]:
    class ProcessWithClock(Process):
        program = ("-P", set_clock.__file__, str(clock))

    return ProcessWithClock


def _examples(client: Client, clock: Path) -> dict[str, str]:
    """The ids of the example runs by name, each started at a time of its own."""
    client.register(PLAYBOOK.read_text("utf-8"))
    runs = ExampleRuns(client)
    add_settings(client)
    set_time(clock, START - EXAMPLE_SECONDS)
    client.ended(client.ask("POST", "/schedules/nightly/trigger", {})["execution_id"])
    ids = dict[str, str]()
    for number, name in enumerate(EXAMPLES):
        set_time(clock, START + number * EXAMPLE_SECONDS)
        ids[name] = runs[name]
    set_time(clock, START + len(EXAMPLES) * EXAMPLE_SECONDS)
    return {**ids, "repaired": _repaired(runs)}


def _server_time(server: PageServer) -> float:
    """By the header that the page sets its clock by; the server renews it every second."""
    return parsedate_to_datetime(server.api.http.get(server.url).headers["Date"]).timestamp()


def _repaired(runs: ExampleRuns) -> str:
    """A fork of the failed run with a playbook that knows all prices."""
    text = (PLAYBOOKS / "stock.yaml").read_text("utf-8").replace('{"A1": 20.0}', '{"A1": 20.0, "B7": 5.5}')
    execution = runs.act(runs["failed"], "fork", at=12, playbook=text)["execution_id"]
    assert runs.client.ended(execution)["status"] == "succeeded"
    return execution


def _screenshot(opener: PageOpener, path: str, theme: Theme, width: int, button: str | None) -> bytes:
    context = opener.context("admin", theme, width)
    context.clock.set_fixed_time(PICTURE)
    page = context.new_page()
    settling = Settling(page)
    page.goto(opener.server.url + path)
    settling.wait()
    if button is not None:
        page.get_by_role("button", name=button).first.click()
        settling.wait()
    content = page.screenshot(animations="disabled", caret="hide")
    context.close()
    return _quantised(content)


def _quantised(content: bytes) -> bytes:
    """The same with few colours: a third of the size, and most colours of the page are shades of its text."""
    output = BytesIO()
    with Image.open(BytesIO(content)) as image:
        picture = image.convert("RGB")
        parts = picture.tobytes()
        pixels = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
        counts = Counter(pixels)
        palette = _palette(counts)
        nearest = {colour: _nearest(colour, palette) for colour in counts}
        reduced = Image.frombytes("P", picture.size, bytes(nearest[colour] for colour in pixels))
        reduced.putpalette([part for colour in palette for part in colour])
        reduced.save(output, "PNG", optimize=True)
    return output.getvalue()


def _palette(counts: Counter[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The most frequent colours, and those that are least like any of them, such as that of a small mark."""
    palette = [colour for colour, _ in counts.most_common(FREQUENT_COLOURS)]
    distances = {colour: min(math.dist(colour, other) for other in palette) for colour in counts}
    while len(palette) < min(COLOURS, len(counts)):
        palette.append(farthest := max(distances, key=distances.__getitem__))
        distances = {colour: min(distance, math.dist(colour, farthest)) for colour, distance in distances.items()}
    return palette


def _nearest(colour: tuple[int, ...], palette: list[tuple[int, ...]]) -> int:
    return min(range(len(palette)), key=lambda index: math.dist(palette[index], colour))


if __name__ == "__main__":
    main()
