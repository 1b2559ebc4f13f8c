"""The page of a server without a build of the web page: its version and its use. It has no data and no script."""

from __future__ import annotations

from html import escape

from noetl.server.page_files import PageFile, page_file

STYLE = page_file(
    "front-page.css",
    b"""\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }
pre { background: #8882; padding: 1rem; overflow-x: auto; border-radius: 4px; }
""",
)
FRONT_PAGE_ASSETS = {f"front-page-{STYLE.digest[:8]}.css": STYLE}
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>noetl {version}</title>
<link rel="stylesheet" href="/assets/{style}">
<h1>noetl {version}</h1>
<p>This server runs playbooks. Use it with the command line or with its HTTP API.</p>
<h2>Command line</h2>
<p>In the folder of <code>noetl dev</code>, commands find this server by themselves. Elsewhere, set the address and a
token, which <code>noetl token create</code> makes:</p>
<pre>export NOETL_SERVER={url} NOETL_TOKEN=...
noetl register playbook.yaml
noetl exec PATH --wait
noetl runs list
noetl workers list</pre>
<p><code>noetl --help</code> lists all commands. The documentation is in the folder <code>docs</code> of the source:
begin with <code>docs/index.md</code>.</p>
<h2>HTTP API</h2>
<ul>
  <li><a href="{api}">{api}</a>: the description of the API (OpenAPI 3.1)</li>
  <li><a href="/readyz">/readyz</a>: readiness of the server</li>
  <li><a href="/metrics">/metrics</a>: metrics for Prometheus</li>
  <li><a href="/version">/version</a>: the version</li>
</ul>
"""


def front_page(version: str, url: str, api: str) -> PageFile:
    (style,) = FRONT_PAGE_ASSETS
    text = PAGE.format(version=escape(version), url=escape(url), api=api, style=style)
    return page_file("index.html", text.encode())
