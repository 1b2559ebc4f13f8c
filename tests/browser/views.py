"""Every view of the page, with the example run that it shows best."""

from __future__ import annotations

VIEWS = {
    "sign in": "/sign-in",
    "runs": "/runs",
    "preview of a run": "/runs?preview={loop}",
    "a failed run": "/runs/{failed}",
    "a run in progress": "/runs/{running}",
    "a waiting run": "/runs/{waiting}",
    "a step that has not run": "/runs/{finished}?step=approve",
    "the tasks of a step run": "/runs/{finished}?step=reserve&part=tasks",
    "a run in the past": "/runs/{finished}?at=12&step=price",
    "events": "/runs/{finished}?tab=events",
    "logs": "/runs/{finished}?tab=logs",
    "data": "/runs/{finished}?tab=data",
    "items": "/runs/{loop}?tab=items&run=resize%231",
    "related runs": "/runs/{parent}?tab=related",
    "fork": "/runs/{failed}/fork?at=12",
    "retry": "/runs/{failed}/fork?retry=1",
    "compare": "/compare/{failed}/{fork}",
    "compared data": "/compare/{finished}/{failed}?tab=data",
    "compared playbooks": "/compare/{finished}/{failed}?tab=playbook",
    "playbooks": "/playbooks",
    "a playbook": "/playbooks/shop/orders",
    "graph of a playbook": "/playbooks/shop/orders?tab=graph",
    "editor": "/edit/shop/orders",
    "start": "/start/shop/orders",
    "schedules": "/schedules",
    "hooks": "/hooks",
    "workers": "/workers",
    "credentials": "/credentials",
    "access": "/access",
    "system": "/system",
}
"""Paths by name; `{failed}` is the id of an example run."""
