"""The one file that reads the environment. A flag wins over a variable, a variable over the default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Literal, NamedTuple, cast, get_args

from noetl.errors import UsageError
from noetl.model.duration import seconds

DEFAULT_DB = os.path.join(".noetl", "noetl.db")
DEFAULT_RETENTION = "30d"
Synchronous = Literal["full", "normal"]
LogForm = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(NamedTuple):
    """What the command line needs to know about its surroundings."""

    db: str
    """NOETL_DB: the database, a file or a URL; or the content of the file that NOETL_DB_FILE names."""
    synchronous: Synchronous
    """NOETL_SYNCHRONOUS: `full` survives a power cut, `normal` is faster and survives a crash of the process."""


class LogSettings(NamedTuple):
    """How servers and workers speak of themselves."""

    form: LogForm
    """NOETL_LOG_FORMAT: `text` or `json`; text on a terminal and JSON elsewhere if it is not said."""
    level: LogLevel
    """NOETL_LOG_LEVEL: the lowest level that is written."""


class MasterKeySettings(NamedTuple):
    """Where the key that seals credentials comes from."""

    key: str | None
    """NOETL_MASTER_KEY: the key itself, 32 bytes in base64 or hex; after commas, older ones that are still needed."""
    file: str
    """NOETL_MASTER_KEY_FILE: the file that has it otherwise; by default `noetl/master.key` in XDG_CONFIG_HOME."""


class ServerAddress(NamedTuple):
    """A server, and what opens it."""

    url: str
    """NOETL_SERVER: the address, such as https://noetl.example.org."""
    token: str
    """NOETL_TOKEN, or the content of the file that NOETL_TOKEN_FILE names; empty without one."""


class NatsSettings(NamedTuple):
    """Servers of NATS, and how to sign in there."""

    servers: tuple[str, ...]
    """NOETL_NATS, or the content of the file that NOETL_NATS_FILE names: nats://host:4222, several with commas."""
    user: str | None = None
    """NOETL_NATS_USER."""
    password: str | None = None
    """NOETL_NATS_PASSWORD, or a file named by NOETL_NATS_PASSWORD_FILE."""
    token: str | None = None
    """NOETL_NATS_TOKEN, or a file named by NOETL_NATS_TOKEN_FILE."""
    creds: str | None = None
    """NOETL_NATS_CREDS, or NOETL_NATS_CREDS_FILE: the text of a .creds file, or where it is."""


def no_colour(environment: Mapping[str, str] = os.environ) -> bool:
    """NO_COLOR: whether output is to be plain also on a terminal."""
    return bool(environment.get("NO_COLOR"))


def settings(db: str | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force; `db` is what a flag says."""
    said = environment.get("NOETL_SYNCHRONOUS") or "full"
    synchronous: Synchronous = "normal" if said == "normal" else "full"
    if said != synchronous:
        raise UsageError(f"NOETL_SYNCHRONOUS is {said!r}; it can be {' or '.join(get_args(Synchronous))}")
    return Settings(db or _secret("NOETL_DB", environment) or DEFAULT_DB, synchronous)


def retention(said: str | None = None, environment: Mapping[str, str] = os.environ) -> float | None:
    """For how many seconds after their end executions are kept; None: for ever. `said` is what a flag says."""
    text = said or environment.get("NOETL_RETENTION") or DEFAULT_RETENTION
    if text in ("0", "off"):
        return None
    found = seconds(text)
    if not found:
        name = "--retention" if said else "NOETL_RETENTION"
        raise UsageError(f"{name} is {text!r}; write a duration such as 30d or 12h, or off to keep all")
    return found


def log_settings(
    terminal: bool, form: str | None = None, level: str | None = None, environment: Mapping[str, str] = os.environ
) -> LogSettings:
    """How to write log lines; `form` and `level` are what flags say."""
    chosen = form or environment.get("NOETL_LOG_FORMAT") or ("text" if terminal else "json")
    lowest = level or environment.get("NOETL_LOG_LEVEL") or "info"
    for name, value, known in (
        ("NOETL_LOG_FORMAT", chosen, get_args(LogForm)),
        ("NOETL_LOG_LEVEL", lowest, get_args(LogLevel)),
    ):
        if value not in known:
            raise UsageError(f"{name} is {value!r}; it can be {', '.join(known)}")
    return LogSettings(cast(LogForm, chosen), cast(LogLevel, lowest))


def traces_endpoint(said: str | None = None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Where spans go over OTLP/HTTP; None: there are no traces. `said` is what a flag says."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" and not said:
        return None
    exact = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = (
        said or environment.get("NOETL_TRACES") or (None if exact else environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    )
    found = f"{base.rstrip('/')}/v1/traces" if base else exact
    if base == "off" or not found:
        return None
    if not found.startswith(("http://", "https://")):
        raise UsageError(f"the address for traces begins with http:// or https://, and not as {base or exact!r} does")
    return found


def trusted_proxies(said: Sequence[str] = (), environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The addresses and networks of trusted proxies; `said` has the values of the flags."""
    texts = list(said) or environment.get("NOETL_TRUSTED_PROXIES", "").split(",")
    found = tuple(text.strip() for text in texts if text.strip())
    for text in found:
        try:
            ip_network(text)
        except ValueError:
            name = "--trusted-proxy" if said else "NOETL_TRUSTED_PROXIES"
            example = "10.0.0.7 or 10.0.0.0/8"
            raise UsageError(f"{name} must be an address or a network, such as {example} (got {text!r})") from None
    return found


def master_key_settings(environment: Mapping[str, str] = os.environ) -> MasterKeySettings:
    """The settings of the master key."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join("~", ".config")
    file = environment.get("NOETL_MASTER_KEY_FILE") or os.path.join(home, "noetl", "master.key")
    return MasterKeySettings(environment.get("NOETL_MASTER_KEY") or None, os.path.expanduser(file))


def server_address(
    url: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    insecure: bool = False,
) -> ServerAddress | None:
    """The server that verbs are to act on; None if there is none. The arguments are what flags say.

    Tokens are sent to other machines only over TLS: UsageError for http:// to another machine, unless allowed.
    """
    url = url or environment.get("NOETL_SERVER")
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--server must start with http:// or https:// (got {url!r})")
    address = ServerAddress(url.rstrip("/"), token or _secret("NOETL_TOKEN", environment))
    allowed = insecure or environment.get("NOETL_INSECURE", "") not in ("", "0")
    if address.token and not allowed and url.startswith("http://") and not is_this_machine(url):
        raise UsageError(
            f"{address.url} is not encrypted: the token and the credentials of tasks would be sent in plain text. "
            "Use https://, or allow http:// on a private network: --insecure, or NOETL_INSECURE=1"
        )
    return address


def is_this_machine(url: str) -> bool:
    """Whether a URL points to this machine. Does not resolve names."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_folders(
    use: Literal["secret", "tool"], environment: Mapping[str, str] = os.environ
) -> tuple[str, list[str]]:
    """The variable that lists the folders open to playbooks, and these folders; no folder means all."""
    name = "NOETL_SECRET_FILES" if use == "secret" else "NOETL_TOOL_FILES"
    return name, [os.path.expanduser(folder) for folder in environment.get(name, "").split(os.pathsep) if folder]


def own_files(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Files that playbooks must not use: the default database, the master key, and the files that `NOETL_*_FILE` and
    NOETL_PROTECTED_FILES name."""
    named = [value for name, value in environment.items() if re.fullmatch("NOETL_[A-Z_]+_FILE", name) and value]
    more = [file for file in environment.get("NOETL_PROTECTED_FILES", "").split(os.pathsep) if file]
    db = environment.get("NOETL_DB") or DEFAULT_DB
    database = [] if "://" in db else [db.removeprefix("sqlite:")]
    return [os.path.expanduser(file) for file in (master_key_settings(environment).file, *database, *named, *more)]


def nats_settings(url: str | None = None, environment: Mapping[str, str] = os.environ) -> NatsSettings | None:
    """Where NATS is; None if nothing says so. `url` is what a flag says."""
    given = url or _secret("NOETL_NATS", environment)
    if not given:
        return None
    servers = tuple(server.strip().rstrip("/") for server in given.split(","))
    if not all(re.fullmatch(r"(nats|tls|ws|wss)://[^\s/]+", server) for server in servers):
        raise UsageError("the address of NATS is written nats://HOST:4222 (or tls://, ws://, wss://)")
    creds = _secret("NOETL_NATS_CREDS", environment) or None
    if creds and "BEGIN NATS USER JWT" not in creds:
        raise UsageError("NOETL_NATS_CREDS is the text of a .creds file; NOETL_NATS_CREDS_FILE names one")
    return NatsSettings(
        servers,
        environment.get("NOETL_NATS_USER") or None,
        _secret("NOETL_NATS_PASSWORD", environment) or None,
        _secret("NOETL_NATS_TOKEN", environment) or None,
        creds,
    )


def nats_variables(url: str | None = None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The same as environment variables, for a child process."""
    chosen = nats_settings(url, environment)
    if chosen is None:
        return {}
    fields = {"": ",".join(chosen.servers), "_USER": chosen.user, "_PASSWORD": chosen.password}
    fields |= {"_TOKEN": chosen.token, "_CREDS": chosen.creds}
    return {f"NOETL_NATS{name}": value for name, value in fields.items() if value}


def _secret(name: str, environment: Mapping[str, str]) -> str:
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
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{name}_FILE: can't read {file}: {reason}") from None


def take_over(handed: Mapping[str, str]) -> None:
    """Apply NOETL_ settings that the parent process passed on standard input instead of the environment."""
    os.environ.update({name: value for name, value in handed.items() if name.startswith("NOETL_")})


def variables() -> Mapping[str, str]:
    """The whole environment, for providers of secrets."""
    return os.environ


VARIABLES: dict[str, tuple[str, str]] = {
    "NOETL_DB": ("`--db`", "The database: a file, or `postgresql://...`. Default `.noetl/noetl.db`."),
    "NOETL_DB_FILE": ("", "A file that holds the address, where it has a password in it."),
    "NOETL_SYNCHRONOUS": ("", "`full` (default) survives a power cut; `normal` is faster and survives a crash."),
    "NOETL_SERVER": ("`--server`", "The server that verbs act on and workers take work from."),
    "NOETL_TOKEN": ("`--token` of workers", "The token for that server."),
    "NOETL_TOKEN_FILE": ("", "A file that holds the token."),
    "NOETL_INSECURE": (
        "`--insecure`",
        "`1` allows `http://` to another machine, which exposes the token.",
    ),
    "NOETL_TRUSTED_PROXIES": (
        "`--trusted-proxy`",
        "Comma-separated addresses or networks of proxies whose `X-Forwarded-For` a server trusts.",
    ),
    "NOETL_RETENTION": ("`--retention`", "How long executions are kept after their end; `off` or `0`: for ever."),
    "NOETL_LOG_FORMAT": ("`--log-format`", "`text` or `json`. Default: text on a terminal, JSON elsewhere."),
    "NOETL_LOG_LEVEL": ("`--log-level`", "`debug`, `info` (default), `warning` or `error`."),
    "NOETL_TRACES": (
        "`--traces`",
        "The OTLP/HTTP receiver of traces, such as `http://collector:4318`, or `off`.",
    ),
    "OTEL_EXPORTER_OTLP_ENDPOINT": (
        "",
        "The same, without `NOETL_TRACES`. Other `OTEL_` variables apply, too.",
    ),
    "NOETL_MASTER_KEY": ("", "The key that seals credentials; older ones that are still needed after commas."),
    "NOETL_MASTER_KEY_FILE": ("", "The file that has it otherwise. Default `~/.config/noetl/master.key`."),
    "NOETL_NATS": ("`--nats`", "Servers of NATS, with commas between them."),
    "NOETL_NATS_FILE": ("", "A file that holds the same."),
    "NOETL_NATS_USER": ("", "The user for NATS."),
    "NOETL_NATS_PASSWORD": ("", "The password for NATS."),
    "NOETL_NATS_PASSWORD_FILE": ("", "A file that holds it."),
    "NOETL_NATS_TOKEN": ("", "A token for NATS."),
    "NOETL_NATS_TOKEN_FILE": ("", "A file that holds it."),
    "NOETL_NATS_CREDS": ("", "The text of a `.creds` file for NATS."),
    "NOETL_NATS_CREDS_FILE": ("", "The `.creds` file itself."),
    "NOETL_SECRET_FILES": (
        "",
        "Folders that `provider: file` may read, separated by `:`. Default: every folder.",
    ),
    "NOETL_TOOL_FILES": (
        "",
        "Folders whose files tool inputs may name, separated by `:`. Default: every folder.",
    ),
    "NOETL_PROTECTED_FILES": (
        "",
        "Additional files that no playbook may name, separated by `:`. Databases, the master key and files named by a "
        "`NOETL_*_FILE` variable are always protected.",
    ),
    "NO_COLOR": ("", "No colours, also on a terminal."),
}
"""Every variable: the flag that wins over it, and what it means. The reference is made of this."""
