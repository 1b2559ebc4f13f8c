"""Writes screenshots of the page to `docs/img`, for README and the tutorial; `make docs` does it when the page changes.

Each view is drawn light at 1440 pixels and dark at 390, on the example runs of the browser tests. Times and durations
differ from one run to the next, so no test compares the screenshots; `docs/img/source.txt` says which page they show.
"""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from tests.acceptance.modes.stage import FreshProcess
from tests.browser.chromium import launched
from tests.browser.examples import PLAYBOOKS, ExampleRuns, add_settings
from tests.browser.opening import PageOpener, Settling, Theme
from tests.browser.serving import page_server

from tools.page import PAGE, STAMP

IMAGES = Path(__file__).parents[2] / "docs" / "img"
SOURCE = IMAGES / "source.txt"
THEMES: dict[Theme, tuple[str, int]] = {"light": ("", 1440), "dark": ("-dark", 390)}
"""With what the name of the file ends, and the width."""
COLOURS = 192
VIEWS = {
    "runs": "/runs",
    "run": "/runs/{running}",
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
CLICKS = {"respond": "Respond..."}
"""A button that is pressed before the screenshot is taken."""


def main() -> None:
    built_from = (PAGE / STAMP).read_text("utf-8")
    if SOURCE.exists() and SOURCE.read_text("utf-8") == built_from:
        return
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        page_server(Path(folder), FreshProcess) as server,
        launched() as browser,
    ):
        runs = ExampleRuns(server.api)
        add_settings(server.api)
        ids = {**runs, "repaired": _repaired(runs)}
        opener = PageOpener(browser, server)
        for theme, (ending, width) in THEMES.items():
            for name, path in VIEWS.items():
                content = _screenshot(opener, path.format_map(ids), theme, width, CLICKS.get(name))
                (IMAGES / f"{name}{ending}.png").write_bytes(content)
        opener.check()
    SOURCE.write_text(built_from, "utf-8")


def _repaired(runs: ExampleRuns) -> str:
    """A fork of the failed run with a playbook that knows all prices."""
    text = (PLAYBOOKS / "stock.yaml").read_text("utf-8").replace('{"A1": 20.0}', '{"A1": 20.0, "B7": 5.5}')
    execution = runs.act(runs["failed"], "fork", at=12, playbook=text)["execution_id"]
    assert runs.client.ended(execution)["status"] == "succeeded"
    return execution


def _screenshot(opener: PageOpener, path: str, theme: Theme, width: int, button: str | None) -> bytes:
    context = opener.context("admin", theme, width)
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
    """The same with few colours: a third of the size, and the page has few."""
    output = BytesIO()
    with Image.open(BytesIO(content)) as image:
        image.convert("RGB").quantize(COLOURS).save(output, "PNG", optimize=True)
    return output.getvalue()


if __name__ == "__main__":
    main()
