"""The files under deploy/ are sound: linters say so, and what linters can't know is compared with the program."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import pytest
import yaml
from tests.servers.patience import PATIENCE_SECONDS

from noetl.cli.main import noetl_command
from noetl.cli.pool import KILL_MARGIN_SECONDS
from noetl.cli.server import PORT
from noetl.errors import UsageError
from noetl.server.listen import CLOSE_SECONDS
from noetl.server.roles import ALLOWED
from noetl.settings import VARIABLES, server_address
from noetl.worker.worker_loop import GRACE_SECONDS, HAND_BACK_SECONDS

HOME = Path(__file__).parents[1]
DEPLOY = HOME / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OBJECTS: list[dict[str, Any]] = [one for file in MANIFESTS for one in yaml.safe_load_all(file.read_text("utf-8"))]
PAGES = ("deploy", "back-up", "observe", "sizing")
BIN = Path(sys.executable).parent


class Container(NamedTuple):
    """A container that runs `noetl`."""

    where: str
    args: list[str]
    env: dict[str, Any]
    grace: float
    """Seconds between the signal to end and the death."""


def containers() -> Iterator[Container]:
    yield Container("Dockerfile", _json("CMD"), _image_env(), 1e9)
    for name, service in COMPOSE["services"].items():
        if service["image"] == "noetl":
            grace = float(service["stop_grace_period"].removesuffix("s"))
            yield Container(f"compose {name}", service["command"], service.get("environment", {}), grace)
    for one in OBJECTS:
        if one["kind"] == "Deployment":
            pod = one["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            env = {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}
            yield Container(one["metadata"]["name"], container["args"], env, pod["terminationGracePeriodSeconds"])


def _json(word: str) -> list[str]:
    (result,) = re.findall(rf"^{word} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return list(yaml.safe_load(result))


def _image_env() -> dict[str, str]:
    return dict(re.findall(r"(NOETL_\w+)=(\S+)", DOCKERFILE))


def parsed(args: list[str]) -> click.Context:
    """The context of the verb that a command line ends in; click raises where it does not parse."""
    command: click.Command = noetl_command
    context = click.Context(noetl_command, info_name="noetl", **noetl_command.context_settings)
    rest = [str(arg) for arg in args]
    while isinstance(command, click.Group) and not rest[0].startswith("-"):
        result = command.get_command(context, rest[0])
        assert result is not None, rest[0]
        command, context, rest = result, click.Context(result, context, rest[0]), rest[1:]
    return command.make_context(context.info_name, rest, parent=context.parent)


CONTAINERS = {container.where: container for container in containers()}


# -- linters --------------------------------------------------------------------------------------------------------


def lint(*command: str | Path) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_has_nothing_to_say() -> None:
    lint("hadolint", "--no-color", DEPLOY / "Dockerfile")


def test_the_compose_file_follows_its_specification() -> None:
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_manifests_follow_the_schemas_of_kubernetes(file: Path) -> None:
    lint("kubernetes-validate", "--strict", file)


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=CONTAINERS)
def test_every_command_line_is_one_of_noetl(one: Container) -> None:
    context = parsed(one.args)
    assert context.info_name in ("server", "worker")
    if context.info_name == "server":
        assert (context.params["host"], context.params["port"]) == ("0.0.0.0", PORT)


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=CONTAINERS)
def test_every_variable_is_one_that_is_read(one: Container) -> None:
    assert {name for name in one.env if name.startswith("NOETL_")} <= VARIABLES.keys()


def test_commands_on_the_pages_parse() -> None:
    """Those that are typed, and those that go through `docker compose run`."""
    text = "\n".join((HOME / "docs" / "howto" / f"{name}.md").read_text("utf-8") for name in PAGES)
    shown = re.findall(r"^(?:\$ )?noetl ([^#|>\n]+)", text, re.MULTILINE)
    shown += re.findall(r"run --rm \w+ ([^)\n]+)", text)
    assert len(shown) > 10
    for line in shown:
        parsed(line.split())


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=CONTAINERS)
def test_who_is_told_to_end_has_the_time_that_it_takes(one: Container) -> None:
    context = parsed(one.args)
    if context.info_name == "worker":
        needed = context.params["grace"] + HAND_BACK_SECONDS
    else:
        needed = CLOSE_SECONDS + (GRACE_SECONDS + KILL_MARGIN_SECONDS if context.params["workers"] else 0)
    assert one.grace > needed


PAIRS = [
    ("compose worker", "compose server"),
    ("compose noetl-worker", "compose noetl"),
    ("noetl-worker", "noetl-server"),
]


@pytest.mark.parametrize(("worker", "server"), PAIRS)
def test_workers_know_a_server_that_answers_to_the_name(worker: str, server: str) -> None:
    """A server refuses names that it was not told."""
    one = CONTAINERS[worker]
    url = urlsplit(parsed(one.args).params["server"] or one.env["NOETL_SERVER"])
    assert url.port == PORT
    assert url.hostname in parsed(CONTAINERS[server].args).params["hosts"]
    names = [one["metadata"]["name"] for one in OBJECTS if one["kind"] == "Service"]
    assert url.hostname in {*COMPOSE["services"], *names}


# -- ports, probes, files -------------------------------------------------------------------------------------------


def test_ports_are_the_servers_own() -> None:
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [str(PORT)]
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert {port.rpartition(":")[2] for port in published} == {str(PORT)}
    assert all(port.startswith("127.0.0.1:") for port in published), "published to this machine only"
    (service,) = [one for one in OBJECTS if one["kind"] == "Service"]
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(PORT, "http")]


def test_probes_ask_what_anybody_may_ask() -> None:
    asked = set(re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", DOCKERFILE))
    for one in OBJECTS:
        if one["kind"] != "Deployment":
            continue
        template = one["spec"]["template"]
        (container,) = template["spec"]["containers"]
        ports = {port["name"]: str(port["containerPort"]) for port in container.get("ports", ())}
        probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
        asked |= {(ports[probe["port"]], probe["path"]) for probe in probes}
        notes = template["metadata"].get("annotations", {})
        if notes:
            asked.add((notes["prometheus.io/port"], notes["prometheus.io/path"]))
    assert {path for _, path in asked} == {"/livez", "/readyz", "/metrics"}
    assert {port for port, _ in asked} == {str(PORT)}
    assert all(ALLOWED["GET", path] is None for _, path in asked)


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (HOME / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in copies for source in line.split()[:-1]]
    assert set(sources) == kept
    assert all((HOME / source).exists() for source in sources)


def test_the_image_has_the_drivers_that_its_extras_name() -> None:
    """And what it installs is what the tests have tested: the same versions, each with its hash."""
    extras = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (named,) = re.findall(r"^IMAGE_EXTRAS := (.+)$", (HOME / "Makefile").read_text("utf-8"), re.MULTILINE)
    pins, tested = _pins("image.txt"), _pins("dev.txt") | _pins("run.txt")
    for extra in named.split():
        for requirement in extras[extra]:
            assert re.split(r"[\[<>=]", requirement)[0] in pins, requirement
    assert {name: version for name, version in pins.items() if tested.get(name, version) != version} == {}
    assert _pins("run.txt").items() <= pins.items()


def _pins(name: str) -> dict[str, str]:
    text = (HOME / "requirements" / name).read_text("utf-8")
    blocks = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)(.*(?:\n    --hash=.*)*)", text, re.MULTILINE)
    assert all("--hash=sha256:" in rest for _, _, rest in blocks)
    return {package: version for package, version, _ in blocks}


# -- safety ---------------------------------------------------------------------------------------------------------


def test_nobody_is_root() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    for one in OBJECTS:
        if one["kind"] == "Deployment":
            pod = one["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"]
            assert str(pod["securityContext"]["runAsUser"]) == user
            assert pod["automountServiceAccountToken"] is False
            own = pod["containers"][0]["securityContext"]
            assert own["readOnlyRootFilesystem"]
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert not own["allowPrivilegeEscalation"]
    for name, service in COMPOSE["services"].items():
        if service["image"] == "noetl":
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name


def test_the_record_of_the_last_commit_is_on_a_volume_of_each_server() -> None:
    """A server on a database file has its record beside the file. The image is read-only: without a volume there would
    be no record."""
    state = _image_env()["NOETL_STATE"]
    assert re.search(rf"install --directory --owner=noetl .*{state}\b", DOCKERFILE)
    volumes = {
        name: [volume.partition(":")[2] for volume in service.get("volumes", ())]
        for name, service in COMPOSE["services"].items()
        if service["image"] == "noetl" and "NOETL_DB" in service.get("environment", {})
    }
    for manifest in OBJECTS:
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] == "noetl-server":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            volumes["noetl-server"] = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert set(volumes) == {"server", "noetl-server"}
    assert [name for name, paths in volumes.items() if state not in paths] == []


@pytest.mark.parametrize(
    "one", [container for container in CONTAINERS.values() if "worker" in container.where], ids=lambda one: one.where
)
def test_plain_http_beyond_the_machine_is_allowed_in_so_many_words(one: Container) -> None:
    """M16: whoever reads the file sees it, and the program refuses it otherwise."""
    params = parsed(one.args).params
    url = params["server"] or one.env["NOETL_SERVER"]
    environment = {name: value for name, value in one.env.items() if isinstance(value, str)}
    with pytest.raises(UsageError, match="is not encrypted"):
        server_address(url, "token", {})
    assert server_address(url, "token", environment, insecure=params["insecure"]) is not None


def test_code_of_tasks_is_kept_apart_from_database_and_key() -> None:
    """H5: workers are of another user and have no volume of the server; no server runs tasks itself."""
    services = COMPOSE["services"]
    for name, service in services.items():
        if service["image"] == "noetl" and service["command"][0] == "worker":
            assert service["user"] not in ("10001:10001", "0:0"), name
            assert not service.get("volumes"), name
    for container in CONTAINERS.values():
        assert not parsed(container.args).params.get("workers"), container.where


def test_workers_reach_neither_the_cluster_nor_its_cloud() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"}
    worker = policies["noetl-worker"]
    assert (set(worker["policyTypes"]), worker["ingress"]) == ({"Ingress", "Egress"}, [])
    blocks = [to["ipBlock"] for rule in worker["egress"] for to in rule["to"] if "ipBlock" in to]
    for address in ("169.254.169.254", "10.96.0.1", "172.16.0.1", "192.168.1.1", "fd00:ec2::254", "fe80::1"):
        result = ip_address(address)
        for block in blocks:
            inside = ip_network(block["cidr"])
            assert result.version != inside.version or any(result in ip_network(no) for no in block["except"]), address
    server = policies["noetl-server"]
    assert server["policyTypes"] == ["Ingress"]
    assert [rule["from"] for rule in server["ingress"]] == [[{"podSelector": {}}]]


def test_images_of_others_are_named_to_the_patch() -> None:
    """Digests can't be looked up here; tags are as exact as they come."""
    (python,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    for image in (python, *(service["image"] for service in COMPOSE["services"].values())):
        assert image == "noetl" or re.search(r":\d+\.\d+(\.\d+)?-\w+", image), image


def test_the_image_has_the_program_of_its_sandbox() -> None:
    assert re.search(r"apt-get install .*\bbubblewrap\b", DOCKERFILE)


def test_no_secret_is_an_argument() -> None:
    for name, service in COMPOSE["services"].items():
        assert not re.search("TOKEN|PASSWORD", str(service.get("command"))), name


@pytest.mark.skipif(not (BIN / "nats-server").exists(), reason="there is no nats-server here")
def test_nats_takes_its_token_from_the_environment_and_wants_one(tmp_path: Path) -> None:
    (tmp_path / "nats.conf").write_text((DEPLOY / "nats.conf").read_text().replace("/data", str(tmp_path)))
    for environment, starts in (({}, False), ({"NATS_TOKEN": "abc123"}, True)):
        done = subprocess.run(
            [BIN / "nats-server", "--config", tmp_path / "nats.conf", "-t"],
            env=environment,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode == 0) == starts, done.stderr


def test_secrets_are_referred_to_and_never_written_down() -> None:
    for container in CONTAINERS.values():
        for name, value in container.env.items():
            if re.search("TOKEN|PASSWORD|MASTER_KEY$", name) or (name == "NOETL_DB" and "postgres" in str(value)):
                is_reference = isinstance(value, dict) and "secretKeyRef" in value
                assert is_reference or re.search(r"\$\{\w+:-\}", str(value)), f"{container.where} {name}"
    assert not [one for one in OBJECTS if one["kind"] == "Secret"]


def test_images_are_named_without_a_host() -> None:
    images = [service["image"] for service in COMPOSE["services"].values()]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    for one in OBJECTS:
        if one["kind"] == "Deployment":
            images += [container["image"] for container in one["spec"]["template"]["spec"]["containers"]]
    for image in images:
        assert "/" not in image, image


def test_selectors_find_the_pods_they_are_for() -> None:
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in OBJECTS if one["kind"] == "Deployment"]
    for one in OBJECTS:
        spec = one.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            assert len([labels for labels in pods if wanted.items() <= labels.items()]) == 1, one["metadata"]["name"]


def test_every_profile_can_stand_alone() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert set(service["profiles"]) <= set(services[needed]["profiles"]), (name, needed)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        for network in service.get("networks", ()):
            assert network in COMPOSE["networks"]
    assert {profile for service in services.values() for profile in service["profiles"]} == {"sqlite", "postgres"}
