"""The only module that reads the environment. A flag, which is an argument here, overrides a variable, and a variable
the default; `VARIABLES` explains each variable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from noetl.errors import UsageError
from noetl.model.duration import seconds

PROJECT_FILE = "noetl.toml"
DEFAULT_DB = os.path.join(".noetl", "noetl.db")
DEFAULT_RETENTION = "30d"
Environment = Mapping[str, str]
Synchronous = Literal["full", "normal"]
LogForm = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(NamedTuple):
    db: str
    synchronous: Synchronous


class MasterKeySettings(NamedTuple):
    key: str | None  # the key itself; after commas, older ones that are still needed
    file: str  # the file with the key, if `key` is None


class ServerAddress(NamedTuple):
    url: str
    token: str  # empty if there is none

    @property
    def exposed(self) -> bool:
        """Whether requests reach another machine in plain text."""
        return self.url.startswith("http://") and not is_this_machine(self.url)


class NatsSettings(NamedTuple):
    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None
    creds: str | None = None  # the text of a .creds file


def no_colour() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def default_db() -> str:
    """The database of the project: below the nearest folder upwards that has a `noetl.toml`, else below this one."""
    folder = working_folder = os.getcwd()
    while not _is_project(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return DEFAULT_DB
        folder = above
    return DEFAULT_DB if folder == working_folder else os.path.join(folder, DEFAULT_DB)


def _is_project(folder: str) -> bool:
    """Whether the folder has a project file of this user or root: credentials of a project of another user, such as in
    /tmp, would be in the hands of that user."""
    try:
        return os.stat(os.path.join(folder, PROJECT_FILE)).st_uid in (os.getuid(), 0)
    except OSError:
        return False


def settings(db: str | None = None, environment: Environment = os.environ) -> Settings:
    synchronous = _choice("NOETL_SYNCHRONOUS", Synchronous, environment, "full")
    return Settings(db or _secret("NOETL_DB", environment) or default_db(), synchronous)


def names_db() -> bool:
    """Whether the environment names a database."""
    return bool(os.environ.get("NOETL_DB") or os.environ.get("NOETL_DB_FILE"))


def retention(flag: str | None = None, environment: Environment = os.environ) -> float | None:
    """Seconds for which executions are kept after their end; None: for ever."""
    text = flag or environment.get("NOETL_RETENTION") or DEFAULT_RETENTION
    if text in ("0", "off"):
        return None
    duration = seconds(text)
    if not duration:
        name = "--retention" if flag else "NOETL_RETENTION"
        raise UsageError(f"{name} is {text!r}; write a duration such as 30d or 12h, or off to keep all")
    return duration


def log_settings(
    terminal: bool, form: LogForm | None = None, level: LogLevel | None = None, environment: Environment = os.environ
) -> tuple[LogForm, LogLevel]:
    form = form or _choice("NOETL_LOG_FORMAT", LogForm, environment, "text" if terminal else "json")
    return form, level or _choice("NOETL_LOG_LEVEL", LogLevel, environment, "info")


def _choice(name: str, choices: Any, environment: Environment, default: str) -> Any:
    """The value of a variable; UsageError if it is not one of the literals."""
    value = environment.get(name) or default
    if value not in get_args(choices):
        raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(get_args(choices))}")
    return value


def traces_endpoint(flag: str | None = None, environment: Environment = os.environ) -> str | None:
    """The OTLP/HTTP endpoint for spans; None: no traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" and not flag:
        return None
    exact = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    general = None if exact else environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    base = flag or environment.get("NOETL_TRACES") or general
    endpoint = f"{base.rstrip('/')}/v1/traces" if base else exact
    if base == "off" or not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the address for traces must start with http:// or https:// (got {base or exact!r})")
    return endpoint


def trusted_proxies(flags: Sequence[str] = (), environment: Environment = os.environ) -> tuple[str, ...]:
    texts = list(flags) or environment.get("NOETL_TRUSTED_PROXIES", "").split(",")
    proxies = tuple(text.strip() for text in texts if text.strip())
    if proxies:
        from ipaddress import ip_network  # most commands start without it
    for text in proxies:
        try:
            ip_network(text)
        except ValueError:
            name = "--trusted-proxy" if flags else "NOETL_TRUSTED_PROXIES"
            example = "10.0.0.7 or 10.0.0.0/8"
            raise UsageError(f"{name} must be an address or a network, such as {example} (got {text!r})") from None
    return proxies


def master_key_settings(environment: Environment = os.environ) -> MasterKeySettings:
    home = environment.get("XDG_CONFIG_HOME") or os.path.join("~", ".config")
    file = environment.get("NOETL_MASTER_KEY_FILE") or os.path.join(home, "noetl", "master.key")
    return MasterKeySettings(environment.get("NOETL_MASTER_KEY") or None, os.path.expanduser(file))


def cache_folder() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.expanduser(os.environ.get("NOETL_CACHE") or os.path.join(home, "noetl"))


def state_folder(environment: Environment = os.environ) -> str | None:
    """The folder in which a server records its last commit; None if the user has no home directory."""
    home = environment.get("XDG_STATE_HOME") or os.path.join("~", ".local", "state")
    folder = os.path.expanduser(environment.get("NOETL_STATE") or os.path.join(home, "noetl"))
    return None if folder.startswith("~") else folder


def installer_variables() -> dict[str, str]:
    """The settings of pip, uv and proxies, for installing packages."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "UV_")) or name.upper() in proxies or name == "XDG_CACHE_HOME"
    }


def server_address(
    url: str | None = None, token: str | None = None, environment: Environment = os.environ, *, insecure: bool = False
) -> ServerAddress | None:
    """The server that verbs act on; None if there is none. UsageError for a token over http:// to another machine,
    unless `insecure` is set."""
    url = url or environment.get("NOETL_SERVER")
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--server must start with http:// or https:// (got {url!r})")
    _check_address(url)
    address = ServerAddress(url.rstrip("/"), token or _secret("NOETL_TOKEN", environment))
    allowed = insecure or environment.get("NOETL_INSECURE", "") not in ("", "0")
    if address.token and not allowed and address.exposed:
        raise UsageError(
            f"{address.url} is not encrypted: the token and the credentials of tasks would be sent in plain text. "
            "Use https://, or allow http:// on a private network: --insecure, or NOETL_INSECURE=1"
        )
    return address


def _check_address(url: str) -> None:
    """UsageError for the URL of a server without a host, with a wrong port, a query string or a password, which is not
    printed."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:  # the port is not a number up to 65535, or the brackets of an IPv6 address do not match
        parts, is_address = None, False
    if "@" in (parts.netloc if parts else url):
        raise UsageError("--server must not contain a user or a password: servers accept tokens, in NOETL_TOKEN")
    if not is_address:
        raise UsageError(f"--server must be an address such as http://127.0.0.1:8082 (got {url!r})")


def is_this_machine(url: str) -> bool:
    """Whether a URL points to this machine. Does not resolve names."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:  # not a URL, or the name of another machine
        return False


def allowed_folders(use: Literal["secret", "tool"], environment: Environment = os.environ) -> tuple[str, list[str]]:
    """The variable that lists the folders whose files playbooks may use, and these folders; none means all."""
    name = "NOETL_SECRET_FILES" if use == "secret" else "NOETL_TOOL_FILES"
    return name, [os.path.expanduser(folder) for folder in environment.get(name, "").split(os.pathsep) if folder]


def own_files(environment: Environment = os.environ) -> list[str]:
    """Files that playbooks must not use: the default database, the master key, and the files that `NOETL_*_FILE` and
    NOETL_PROTECTED_FILES name."""
    named = [value for name, value in environment.items() if re.fullmatch("NOETL_[A-Z_]+_FILE", name) and value]
    more = [file for file in environment.get("NOETL_PROTECTED_FILES", "").split(os.pathsep) if file]
    db = environment.get("NOETL_DB") or default_db()
    database = [] if "://" in db else [db.removeprefix("sqlite:")]
    return [os.path.expanduser(file) for file in (master_key_settings(environment).file, *database, *named, *more)]


def nats_settings(url: str | None = None, environment: Environment = os.environ) -> NatsSettings | None:
    urls = url or _secret("NOETL_NATS", environment)
    if not urls:
        return None
    servers = tuple(server.strip().rstrip("/") for server in urls.split(","))
    if not all(re.fullmatch(r"(nats|tls|ws|wss)://[^\s/]+", server) for server in servers):
        raise UsageError("the address of NATS must be nats://HOST:4222 (or tls://, ws://, wss://)")
    creds = _secret("NOETL_NATS_CREDS", environment) or None
    if creds and "BEGIN NATS USER JWT" not in creds:
        raise UsageError("NOETL_NATS_CREDS must be the text of a .creds file; NOETL_NATS_CREDS_FILE names one")
    user = environment.get("NOETL_NATS_USER") or None
    password = _secret("NOETL_NATS_PASSWORD", environment) or None
    return NatsSettings(servers, user, password, _secret("NOETL_NATS_TOKEN", environment) or None, creds)


def nats_variables(url: str | None = None, environment: Environment = os.environ) -> dict[str, str]:
    """The same as environment variables, for a child process."""
    nats = nats_settings(url, environment)
    if nats is None:
        return {}
    names = ("NOETL_NATS", "NOETL_NATS_USER", "NOETL_NATS_PASSWORD", "NOETL_NATS_TOKEN", "NOETL_NATS_CREDS")
    return {name: value for name, value in zip(names, (",".join(nats.servers), *nats[1:]), strict=True) if value}


def _secret(name: str, environment: Environment) -> str:
    """The value of a variable, or the content of the file that NAME_FILE names."""
    if value := environment.get(name):
        return value
    file = environment.get(f"{name}_FILE")
    if not file:
        return ""
    try:
        with open(os.path.expanduser(file), encoding="utf-8") as opened:
            return opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{name}_FILE: cannot read {file}: {reason}") from None


def take_over(variables: Mapping[str, str]) -> None:
    """Apply NOETL_ settings that the parent process passed on standard input instead of the environment."""
    os.environ.update({name: value for name, value in variables.items() if name.startswith("NOETL_")})


def variables() -> Mapping[str, str]:
    """The whole environment, for providers of secrets."""
    return os.environ


VARIABLES: dict[str, tuple[str, str]] = {
    "NOETL_DB": (
        "`--db`",
        "The database: a file, or `postgresql://...`. Default `.noetl/noetl.db` in the project, which is the nearest "
        "folder upwards with a `noetl.toml`, else in this folder.",
    ),
    "NOETL_DB_FILE": ("", "File with the address, if that contains a password."),
    "NOETL_SYNCHRONOUS": ("", "`full` (default) survives a power cut; `normal` is faster and survives a crash."),
    "NOETL_SERVER": ("`--server`", "The server that verbs use and workers work for."),
    "NOETL_TOKEN": ("`--token` of workers", "The token for that server."),
    "NOETL_TOKEN_FILE": ("", "File with the token."),
    "NOETL_INSECURE": ("`--insecure`", "`1` allows `http://` to another machine, which exposes the token."),
    "NOETL_TRUSTED_PROXIES": (
        "`--trusted-proxy`",
        "Proxies whose `X-Forwarded-For` a server trusts, separated by commas.",
    ),
    "NOETL_RETENTION": ("`--retention`", "Time until ended runs are removed, or `off`. Default `30d`."),
    "NOETL_LOG_FORMAT": ("`--log-format`", "`text` or `json`. Default: text on a terminal, JSON elsewhere."),
    "NOETL_LOG_LEVEL": ("`--log-level`", "`debug`, `info` (default), `warning` or `error`."),
    "NOETL_TRACES": ("`--traces`", "The OTLP/HTTP receiver of traces, such as `http://collector:4318`, or `off`."),
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("", "The same, without `NOETL_TRACES`. Other `OTEL_` variables apply, too."),
    "NOETL_MASTER_KEY": ("", "The master key of credentials; after commas, older keys that are still needed."),
    "NOETL_STATE": (
        "",
        "Folder in which a server with a Postgres database records its last commit. Default `~/.local/state/noetl`.",
    ),
    "NOETL_MASTER_KEY_FILE": ("", "File with the master key. Default `~/.config/noetl/master.key`."),
    "NOETL_NATS": ("`--nats`", "NATS servers, separated by commas."),
    "NOETL_NATS_FILE": ("", "File with the same."),
    "NOETL_NATS_USER": ("", "The user for NATS."),
    "NOETL_NATS_PASSWORD": ("", "The password for NATS."),
    "NOETL_NATS_PASSWORD_FILE": ("", "File with the same."),
    "NOETL_NATS_TOKEN": ("", "A token for NATS."),
    "NOETL_NATS_TOKEN_FILE": ("", "File with the same."),
    "NOETL_NATS_CREDS": ("", "The text of a `.creds` file for NATS."),
    "NOETL_NATS_CREDS_FILE": ("", "The `.creds` file itself."),
    "NOETL_SECRET_FILES": ("", "Folders that `provider: file` may read, separated by `:`. Default: every folder."),
    "NOETL_TOOL_FILES": ("", "Folders whose files tool inputs may name, separated by `:`. Default: every folder."),
    "NOETL_PROTECTED_FILES": (
        "",
        "Additional files that no playbook may name, separated by `:`. Databases, the master key and files named by a "
        "`NOETL_*_FILE` variable are always protected.",
    ),
    "NOETL_CACHE": ("", "Folder for packages that `requirements` of Python tasks install. Default `~/.cache/noetl`."),
    "NO_COLOR": ("", "No colours, also on a terminal, as with `TERM=dumb`."),
}
"""Every variable: the flag that overrides it, and its meaning, for the reference."""
