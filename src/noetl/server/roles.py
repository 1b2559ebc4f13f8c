"""Every route of the server, with the roles that may use it. A route that is not here does not exist.

The path of a request is compared with this table byte by byte: case matters, nothing is decoded, and slashes are not
merged or dropped. `{name}` is a part of the path, of the form below. The busiest routes come first.
"""

from __future__ import annotations

from noetl.model.identity import NAME_FORM
from noetl.store.access import Role

PREFIX = "/api/v1"

Roles = frozenset[Role]
ANYBODY: None = None
VIEW: Roles = frozenset(["viewer", "operator", "author", "admin"])
OPERATE: Roles = frozenset(["operator", "author", "admin"])
WRITE: Roles = frozenset(["author", "admin"])
ADMIN: Roles = frozenset(["admin"])
WORK: Roles = frozenset(["worker"])

PAGES = (
    "/",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/fork",
    "/compare/{run}/{other_run}",
    "/playbooks",
    "/playbooks/{path}",
    "/edit",
    "/edit/{path}",
    "/start/{path}",
    "/schedules",
    "/schedules/{name}",
    "/hooks",
    "/workers",
    "/credentials",
    "/access",
    "/system",
    "/sign-in",
)
"""The paths of the web page. Its document has no data, so anybody may get it."""

ASSETS = "/assets/{asset}"

ALLOWED: dict[tuple[str, str], Roles | None] = {
    ("POST", "/api/v1/executions"): OPERATE,  # inline playbook text needs author
    ("GET", "/api/v1/executions/{id}"): VIEW,
    ("POST", "/api/v1/worker/report"): WORK,
    ("POST", "/api/v1/worker/claim"): WORK,
    ("POST", "/api/v1/worker/heartbeat"): WORK,
    ("POST", "/api/v1/worker/secrets"): WORK,
    ("GET", "/api/v1/worker/playbooks/{hash}"): WORK,
    ("GET", "/api/v1/worker/blobs/{hash}"): WORK,
    ("PUT", "/api/v1/worker/blobs/{hash}"): WORK,
    ("GET", "/api/v1/executions"): VIEW,
    ("GET", "/api/v1/executions/counts"): VIEW,
    ("GET", "/api/v1/executions/{id}/related"): VIEW,
    ("GET", "/api/v1/executions/{id}/diff"): VIEW,
    ("GET", "/api/v1/executions/{id}/events"): VIEW,
    ("GET", "/api/v1/executions/{id}/outline"): VIEW,
    ("GET", "/api/v1/executions/{id}/live"): VIEW,
    ("GET", "/api/v1/executions/{id}/items"): VIEW,
    ("GET", "/api/v1/executions/{id}/items/summary"): VIEW,
    ("GET", "/api/v1/executions/{id}/step-runs"): VIEW,
    ("GET", "/api/v1/executions/{id}/step-run"): VIEW,
    ("GET", "/api/v1/executions/{id}/state"): VIEW,
    ("GET", "/api/v1/executions/{id}/vars"): VIEW,
    ("GET", "/api/v1/executions/{id}/logs"): VIEW,
    ("GET", "/api/v1/executions/{id}/explain"): VIEW,
    ("GET", "/api/v1/executions/{id}/export"): VIEW,
    ("POST", "/api/v1/executions/{id}/cancel"): OPERATE,
    ("POST", "/api/v1/executions/{id}/pause"): OPERATE,
    ("POST", "/api/v1/executions/{id}/resume"): OPERATE,
    ("POST", "/api/v1/executions/{id}/signals"): OPERATE,
    ("POST", "/api/v1/executions/prune"): ADMIN,
    ("GET", "/api/v1/executions/{id}/verify"): OPERATE,
    ("GET", "/api/v1/verify"): OPERATE,
    ("POST", "/api/v1/executions/{id}/fork"): OPERATE,  # an edited playbook needs author
    ("POST", "/api/v1/executions/{id}/retry"): OPERATE,  # likewise
    ("POST", "/api/v1/executions/{id}/replay"): WRITE,
    ("POST", "/api/v1/playbooks"): WRITE,
    ("GET", "/api/v1/playbooks"): VIEW,
    ("POST", "/api/v1/playbooks/validate"): VIEW,
    ("POST", "/api/v1/playbooks/assist"): VIEW,
    ("GET", "/api/v1/playbooks/{path}"): VIEW,
    ("GET", "/api/v1/graphs/{hash}"): VIEW,
    ("GET", "/api/v1/texts/{hash}"): VIEW,
    ("GET", "/api/v1/tools"): VIEW,
    ("GET", "/api/v1/schema"): VIEW,
    ("GET", "/api/v1/problems/{code}"): VIEW,
    ("POST", "/api/v1/schedules"): WRITE,
    ("GET", "/api/v1/schedules"): VIEW,
    ("GET", "/api/v1/schedules/{name}"): VIEW,
    ("PUT", "/api/v1/schedules/{name}"): WRITE,
    ("DELETE", "/api/v1/schedules/{name}"): WRITE,
    ("POST", "/api/v1/schedules/{name}/pause"): OPERATE,
    ("POST", "/api/v1/schedules/{name}/resume"): OPERATE,
    ("POST", "/api/v1/schedules/{name}/trigger"): OPERATE,
    ("POST", "/api/v1/hooks/{name}"): ANYBODY,  # with a signature under the secret of the hook
    ("GET", "/api/v1/hooks"): OPERATE,
    ("PUT", "/api/v1/hooks/{name}"): WRITE,
    ("DELETE", "/api/v1/hooks/{name}"): WRITE,
    ("POST", "/api/v1/hooks/{name}/rotate"): WRITE,
    ("GET", "/api/v1/results/{hash}"): VIEW,
    ("GET", "/api/v1/results/{hash}/page"): VIEW,
    ("GET", "/api/v1/workers"): VIEW,
    ("POST", "/api/v1/workers/drain"): OPERATE,
    ("POST", "/api/v1/workers/stop"): OPERATE,
    ("GET", "/api/v1/server"): OPERATE,
    ("POST", "/api/v1/server/stop"): ADMIN,
    ("GET", "/api/v1/credentials"): OPERATE,
    ("GET", "/api/v1/credentials/{path}"): OPERATE,  # without its secrets
    ("PUT", "/api/v1/credentials/{path}"): ADMIN,
    ("DELETE", "/api/v1/credentials/{path}"): ADMIN,
    ("GET", "/api/v1/tokens"): ADMIN,
    ("POST", "/api/v1/tokens"): ADMIN,
    ("DELETE", "/api/v1/tokens/{name}"): ADMIN,
    ("GET", "/api/v1/users"): ADMIN,
    ("POST", "/api/v1/users"): ADMIN,
    ("PUT", "/api/v1/users/{name}"): ADMIN,
    ("DELETE", "/api/v1/users/{name}"): ADMIN,
    ("POST", "/api/v1/sessions"): ANYBODY,
    ("GET", "/api/v1/sessions"): VIEW,
    ("DELETE", "/api/v1/sessions"): VIEW,
    ("DELETE", "/api/v1/sessions/{name}"): VIEW,  # of others: admin
    ("GET", "/api/v1/openapi.json"): ANYBODY,
    ("GET", ASSETS): ANYBODY,
    ("GET", "/livez"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/metrics"): ANYBODY,  # numbers only, no names
    ("GET", "/version"): ANYBODY,
    **{("GET", path): ANYBODY for path in PAGES},
}

HEX = "[0-9a-f]"
PARTIAL_ID = "[0-9a-f-]{1,36}"  # the page says which runs a part of an id may mean
SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+"
FORMS = {
    "id": f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}",
    "hash": f"{HEX}{{64}}",
    "code": "NTL[0-9]{3}",
    "name": NAME_FORM,
    "run": PARTIAL_ID,
    "other_run": PARTIAL_ID,
    "asset": "[A-Za-z0-9._-]{1,200}",
    "path": f"{SEGMENT}(?:/{SEGMENT})*",
}
"""Forms of the parts of a path, as they are written in the request."""
