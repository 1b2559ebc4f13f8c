"""Every view of the page, with the example run that it shows best."""

from __future__ import annotations

VIEWS = {
    "sign in": "/sign-in",
    "runs": "/runs",
    "a failed run": "/runs/{failed}",
    "a run in progress": "/runs/{running}",
    "a waiting run": "/runs/{waiting}",
}
"""Paths by name; `{failed}` is the id of an example run."""
