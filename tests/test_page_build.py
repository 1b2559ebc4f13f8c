"""The web page is built the same everywhere: by make, and into source distributions and wheels."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zipfile import ZipFile

import httpx2
import pytest
from playwright.sync_api import expect
from tests.browser.chromium import launched
from tests.browser.packages import locked
from tests.servers.patience import PATIENCE_SECONDS, until
from tools import page

from noetl.errors import NoetlError
from noetl.server.page_files import read_page

HOME = Path(__file__).parents[1]
UI = HOME / "ui"
PROJECTS = (UI, HOME / "tests" / "browser")
"""Folders with packages of npm."""
NOT_FOR_BUILDS = ("@biomejs", "@typescript", "@types")
"""The largest packages; they only check the source."""

in_a_checkout = pytest.mark.skipif(not (HOME / ".git").exists(), reason="not a checkout")


def git(*arguments: str) -> list[str]:
    output = subprocess.run(["git", *arguments], cwd=HOME, capture_output=True, text=True, check=True).stdout
    return [name for name in output.split("\0") if name]


# -- what is stored -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", PROJECTS, ids=lambda folder: folder.name)
def test_a_lock_file_names_packages_by_their_content_and_not_by_their_host(project: Path) -> None:
    lock = json.loads((project / "package-lock.json").read_text("utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []
    settings = dict(line.split("=", 1) for line in (project / ".npmrc").read_text("utf-8").splitlines())
    assert settings["omit-lockfile-registry-resolved"] == "true"
    assert settings["ignore-scripts"] == "true"
    assert [name for name in settings if "registry" in name.replace("omit-lockfile-registry-resolved", "")] == []


@in_a_checkout
def test_no_built_file_is_tracked() -> None:
    assert git("ls-files", "-z", "src/noetl/page", "ui/node_modules") == []
    for file in ("src/noetl/page/index.html", "ui/node_modules/vite/package.json"):
        assert subprocess.run(["git", "check-ignore", "-q", file], cwd=HOME, check=False).returncode == 0, file


def test_the_oldest_node_is_the_same_everywhere() -> None:
    oldest = ".".join(map(str, page.OLDEST_NODE))
    assert json.loads((UI / "package.json").read_text("utf-8"))["engines"] == {"node": f">={oldest}"}
    for name in ("CONTRIBUTING.md", "docs/howto/install.md"):
        assert f"Node {oldest} or newer" in (HOME / name).read_text("utf-8"), name


# -- the builder ----------------------------------------------------------------------------------------------------


def test_an_old_node_on_the_path_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v${VERSION}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VERSION", "22.18.0")
    assert page.find_node() == page.Node(tmp_path / "node", (tmp_path / "npm",))
    monkeypatch.setenv("VERSION", "20.20.2")
    other = page.find_node()
    assert other is None or other.program != tmp_path / "node"


def test_a_page_without_any_node_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "find_node", lambda: None)
    with pytest.raises(SystemExit, match=r"Node .* or newer: install it, or `pip install -r requirements/page.txt`"):
        page.ready_node()


def test_a_digest_sees_new_content_and_new_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SOURCE", tmp_path)
    (tmp_path / "a.ts").write_text("1")
    digests = {page.digest(tmp_path.iterdir())}
    (tmp_path / "a.ts").write_text("2")
    digests.add(page.digest(tmp_path.iterdir()))
    (tmp_path / "a.ts").rename(tmp_path / "b.ts")
    digests.add(page.digest(tmp_path.iterdir()))
    (tmp_path / "b.ts").unlink()
    digests.add(page.digest(tmp_path.iterdir()))
    assert len(digests) == 4


def test_screenshots_of_an_earlier_page_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source := tmp_path / "ui").mkdir()
    (source / "a.ts").write_text("1")
    monkeypatch.setattr(page, "SOURCE", source)
    monkeypatch.setattr(page, "SCREENSHOTS_SOURCE", stamp := tmp_path / "source.txt")
    stamp.write_text(page.digest(source.iterdir()))
    assert not page.screenshots_are_outdated()
    (source / "a.ts").write_text("2")
    assert page.screenshots_are_outdated()


def test_assets_that_get_smaller_are_compressed(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_bytes(b"export const answer = 42\n" * 50)
    (tmp_path / "font.woff2").write_bytes(os.urandom(1000))
    page.compress(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["font.woff2", "main.js", "main.js.gz"]
    assert gzip.decompress((tmp_path / "main.js.gz").read_bytes()) == (tmp_path / "main.js").read_bytes()


def test_the_package_of_a_file() -> None:
    assert (
        page.package_of(Path("node_modules/@fontsource-variable/inter/files/x.woff2")) == "@fontsource-variable/inter"
    )
    assert page.package_of(Path("node_modules/preact/dist/x.js")) == "preact"


def test_running_an_example_needs_no_page() -> None:
    def commands(target: str) -> str:
        command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
        return subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True).stdout

    assert "tools.page" not in commands("run")
    for target in ("dev", "test", "check"):
        assert "tools.page" in commands(target), target


# -- distributions --------------------------------------------------------------------------------------------------


def copy_checkout(target: Path, *paths: str) -> Path:
    """The files that a clone would have, with the changes that are not committed yet; all, or those below paths."""
    for name in git("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *paths):
        with suppress(FileNotFoundError):  # deleted, and not committed yet
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HOME / name, target / name)
    return target


def environment(path: str, **variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NOETL_", "PYTHON"))}
    return {**inherited, "PATH": path, **variables}


def pip(*arguments: str | Path, path: str = os.defpath) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=environment(path), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def build(kind: str, source: Path, target: Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Call the build backend as installers do: `wheel`, `sdist` or `editable`."""
    program = f"import hatchling.build; hatchling.build.build_{kind}({str(target)!r})"
    command = [sys.executable, "-c", program]
    variables = environment(path)
    return subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel of a clean clone, built once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent
    folder, partial = shared / "distributions", shared / "distributions.part"
    with locked(shared / "distributions.lock"):
        if not folder.exists():
            source = with_packages(copy_checkout(partial / "clone"))
            for kind in ("sdist", "wheel"):
                done = build(kind, source, partial)
                assert done.returncode == 0, done.stdout + done.stderr
            partial.rename(folder)
    return folder


def with_packages(checkout: Path) -> Path:
    """The same checkout with the packages that build the page, so that none is downloaded."""
    if not (page.PACKAGES / page.STAMP).exists():
        pytest.fail("the packages of the page are missing: run `make page`")
    ignored = shutil.ignore_patterns(*NOT_FOR_BUILDS)
    shutil.copytree(page.PACKAGES, checkout / "ui" / "node_modules", ignore=ignored, symlinks=True)
    return checkout


def page_of(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("noetl/page/")]
        return {name.removeprefix("noetl/page/"): archive.read(name) for name in names}


@in_a_checkout
def test_a_wheel_has_the_page_with_compressed_assets_and_licenses(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    files = page_of(wheel)
    assert {"index.html", "manifest.json", "licenses.md"} <= files.keys()
    assert page.STAMP not in files
    assets = {
        file for chunk in json.loads(files["manifest.json"]).values() for file in (chunk["file"], *chunk.get("css", []))
    }
    assert assets <= files.keys()
    for asset in assets:
        is_worthwhile = len(gzip.compress(files[asset])) < page.WORTHWHILE * len(files[asset])
        compressed = files.get(f"{asset}.gz")
        assert (compressed and gzip.decompress(compressed)) == (files[asset] if is_worthwhile else None), asset
    licenses = files["licenses.md"].decode()
    for text in (
        "## preact",
        "## @fontsource-variable/inter\n",
        "## @fontsource-variable/jetbrains-mono\n",
        "SIL OPEN FONT",
    ):
        assert text in licenses


@in_a_checkout
def test_a_source_distribution_has_the_page_and_its_wheel_needs_no_node(distributions: Path, tmp_path: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # not in the first releases of Python 3.11
        packed.extractall(tmp_path)
    (source,) = tmp_path.iterdir()
    assert not (source / "ui" / "node_modules").exists()
    assert build("wheel", source, tmp_path, path="").returncode == 0
    (wheel,), (other,) = tmp_path.glob("*.whl"), distributions.glob("*.whl")
    assert page_of(wheel) == page_of(other)
    shutil.rmtree(source / "src" / "noetl" / "page")
    done = build("wheel", source, tmp_path, path="")
    assert done.returncode != 0
    assert "src/noetl/page has no built web page: build it with `make page`" in done.stderr


@in_a_checkout
def test_a_page_that_is_watched_is_built_again_after_a_change(tmp_path: Path) -> None:
    checkout = with_packages(copy_checkout(tmp_path, "ui", "tools"))
    folder, source = checkout / "src" / "noetl" / "page", checkout / "ui" / "src" / "main.tsx"
    command = [sys.executable, "-m", "tools.page", "watch"]
    with subprocess.Popen(command, cwd=checkout, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            until(lambda: scripts_of(folder))
            source.write_text(source.read_text("utf-8") + '\nconsole.info("This is a change.");\n', "utf-8")
            until(lambda: any("This is a change." in script for script in scripts_of(folder)))
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE_SECONDS)


def scripts_of(folder: Path) -> list[str]:
    """The scripts of a build that is complete."""
    try:
        built = read_page(folder)
    except NoetlError:
        return []
    files = {} if built is None else built.assets
    return [file.content.decode() for name, file in files.items() if name.endswith(".js")]


@in_a_checkout
def test_an_editable_install_needs_no_page(tmp_path: Path) -> None:
    source = copy_checkout(tmp_path / "clone")
    done = build("editable", source, tmp_path, path="")
    assert done.returncode == 0, done.stderr
    assert not (source / "src" / "noetl" / "page").exists()


@in_a_checkout
def test_the_image_is_built_from_everything_that_a_wheel_needs(distributions: Path, tmp_path: Path) -> None:
    lines = (HOME / ".dockerignore").read_text("utf-8").splitlines()
    assert {"src/noetl/page", "ui/node_modules"} <= set(lines)
    copied = [line.removeprefix("!") for line in lines if line.startswith("!")]
    done = build("wheel", with_packages(copy_checkout(tmp_path, *copied)), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (other,) = tmp_path.glob("*.whl"), distributions.glob("*.whl")
    assert page_of(wheel) == page_of(other)


# -- an installed wheel ---------------------------------------------------------------------------------------------


@contextmanager
def development_server(program: Path, folder: Path) -> Iterator[str]:
    """The link to the page that a `noetl dev` prints; it finds no Node."""
    command, variables = [program, "dev", "--port", "0"], environment(str(program.parent))
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ((url, token),) = re.findall(r"NOETL_SERVER=(\S+) NOETL_TOKEN=(\S+)", process.stdout.readline())
            yield f"{url}/#token={token}"
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def assert_serves_the_page(link: str) -> None:
    with launched() as browser:
        shown = browser.new_page()
        shown.goto(link)
        expect(shown.get_by_text("No runs yet.")).to_be_visible(timeout=60_000)
    with httpx2.Client(base_url=link.partition("#")[0]) as client:
        document = client.get("/runs/01a1")
        assert (document.status_code, document.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', document.text)
        assert {Path(asset).suffix for asset in assets} >= {".js", ".css"}
        for asset in assets:
            answer = client.get(asset)
            assert answer.status_code == 200, asset
            assert answer.headers["content-encoding"] == "gzip", asset


@in_a_checkout
def test_a_wheel_in_an_empty_environment_without_node_serves_the_page(distributions: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment, where noetl is not a wheel."""
    (wheel,) = distributions.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip("--python", python, "install", "--no-index", "--no-deps", wheel)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(httpx2.__file__).parents[1]))
    with development_server(python.with_name("noetl"), tmp_path) as link:
        assert_serves_the_page(link)


@in_a_checkout
@pytest.mark.slow(part="page")
def test_a_wheel_built_and_installed_from_nothing_serves_the_page(tmp_path: Path) -> None:
    """With a build environment of its own, packages from the network, and no Node on this machine."""
    source = copy_checkout(tmp_path / "clone")
    pip("wheel", "--no-deps", "--wheel-dir", tmp_path, source, path="/usr/bin:/bin")
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip("--python", python, "install", "--require-hashes", "-r", HOME / "requirements" / "run.txt")
    pip("--python", python, "install", "--no-deps", wheel)
    with development_server(python.with_name("noetl"), tmp_path) as link:
        assert_serves_the_page(link)
