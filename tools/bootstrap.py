"""Make the project's environment in `.venv`: ``python3 tools/bootstrap.py [dev] [docs] [package==version]``.

Needs nothing but the standard library, because a fresh Debian machine has no more: no pip, no ensurepip (Debian keeps
it in python3-venv), perhaps no certificates. Arguments name dependency groups of pyproject.toml; without any, Frazil
and its own dependencies are installed. Versions come from tools/constraints.txt, but for packages that are named here
with another one. FRAZIL_VENV names another folder than `.venv`.

Where packages come from is the machine's business: PIP_INDEX_URL, UV_DEFAULT_INDEX, UV_INDEX_URL and pip.conf are
honoured, and the public index is the default.
"""

from __future__ import annotations

import configparser
import hashlib
import html
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / os.environ.get("FRAZIL_VENV", ".venv")
PYTHON = VENV / "bin" / "python"
OLDEST_PYTHON = (3, 11)

PUBLIC_INDEX = "https://pypi.org/simple"
# Pinned by content: even a machine without certificates can fetch this one file safely.
PIP_WHEEL = "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
PIP_WITH_GROUPS = "pip>=25.1"  # the first that knows dependency groups


class Failed(Exception):
    """One way of doing a step did not work; the message says why."""


def say(text: str) -> None:
    """Print one progress line at once."""
    print(f"[setup] {text}", flush=True)


def run(*command: str | Path, **environment: str) -> str:
    """Run a command quietly; its output is returned, or becomes the message when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` failed:\n{done.stdout.strip()}")
    return done.stdout


# What the machine says about its package index.


def pip_setting(name: str) -> str | None:
    """A pip setting, from the environment or from the configuration files that pip itself reads."""
    if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return value
    home = Path.home()
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf"]
    files.append(Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    if explicit := os.environ.get("PIP_CONFIG_FILE"):
        files.append(Path(explicit))
    parser = configparser.RawConfigParser()
    parser.read(files)
    return parser.get("install", name, fallback=None) or parser.get("global", name, fallback=None)


def index_url() -> str:
    """The simple index that packages come from."""
    configured = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or pip_setting("index-url")
    return (configured or PUBLIC_INDEX).rstrip("/")


# The environment, empty at first.


def usable() -> bool:
    """Whether `.venv` was made here and of this Python: it breaks when a checkout moves or Python is upgraded."""
    try:
        version = run(PYTHON, "-c", "import sys; print(sys.version_info[:2])").strip()
        made_by = (VENV / "pyvenv.cfg").read_text()
    except (Failed, OSError):
        return False
    return version == str(sys.version_info[:2]) and made_by.rstrip().endswith(f" {VENV}")


def create() -> None:
    """Make an empty environment if there is none that works."""
    if usable():
        return
    say(f"making {VENV.name} with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    run(sys.executable, "-m", "venv", "--without-pip", VENV)


# Ways to get pip into it, in order of preference.


def pip_already_there() -> None:
    """Use the environment's own pip."""
    run(PYTHON, "-m", "pip", "--version")


def pip_by_hosts_pip() -> None:
    """Let the machine's pip install one into the environment."""
    run(sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", PIP_WITH_GROUPS)


def pip_by_ensurepip() -> None:
    """Use the pip that comes with Python, where the distribution left it in."""
    run(PYTHON, "-m", "ensurepip")


def pip_by_download() -> None:
    """Fetch pip's wheel from the index and run it out of the zip to install itself."""
    page_url = f"{index_url()}/pip/"
    say(f"this Python has no pip: fetching {PIP_WHEEL} from the package index")
    page = download(page_url).decode("utf-8", "replace")
    link = re.search(rf'href="([^"]*{re.escape(PIP_WHEEL)}[^"]*)"', page)
    if link is None:
        raise Failed(f"the package index has no {PIP_WHEEL}")
    wheel = VENV / PIP_WHEEL
    content = download(urllib.parse.urljoin(page_url, html.unescape(link[1])))
    if hashlib.sha256(content).hexdigest() != PIP_SHA256:
        raise Failed(f"{PIP_WHEEL} from the package index is not the file that was released")
    wheel.write_bytes(content)
    run(PYTHON, wheel / "pip", "install", "--quiet", "--no-index", wheel)
    wheel.unlink()


def download(url: str) -> bytes:
    """Fetch a URL. Without certificates it is fetched unverified: the caller compares a pinned hash."""
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    context = ssl.create_default_context(cafile=pip_setting("cert"))
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise Failed(f"cannot reach the package index: {error.reason}") from error
    say("no certificates to verify the index with: relying on the pinned hash")
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        raise Failed(f"cannot reach the package index: {error.reason}") from error


def provide_pip() -> None:
    """Have a pip in the environment that knows dependency groups."""
    reasons = []
    for way in (pip_already_there, pip_by_hosts_pip, pip_by_ensurepip, pip_by_download):
        try:
            way()
        except Failed as failed:
            reasons.append(str(failed))
        else:
            break
    else:
        raise Failed("no way to get pip:\n" + "\n".join(f"- {reason}" for reason in reasons))
    try:
        run(PYTHON, "-c", "from importlib.metadata import version as v; assert int(v('pip').split('.')[0]) >= 26")
    except Failed:
        run(PYTHON, "-m", "pip", "install", "--quiet", "--upgrade", PIP_WITH_GROUPS)


# Filling it.


def wanted(named: list[str]) -> list[str]:
    """The arguments, the same for pip and uv, that name what to install."""
    packages = [name for name in named if "==" in name]
    groups = [part for name in named if name not in packages for part in ("--group", name)]
    return ["install", "--constraint", constraints(packages), "--editable", ".", *groups, *packages]


def constraints(packages: list[str]) -> str:
    """The file with the versions of everything, without those of packages that are wanted in another one."""
    locked = ROOT / "tools" / "constraints.txt"
    if not packages:
        return str(locked)
    others = tuple(package.partition("==")[0] + "==" for package in packages)
    left = VENV / "constraints.txt"
    left.write_text("".join(line for line in locked.read_text().splitlines(True) if not line.startswith(others)))
    return str(left)


def fill_with_uv(groups: list[str]) -> None:
    """Install with uv, told about the index that pip is configured for."""
    uv = shutil.which("uv")
    if uv is None:
        raise Failed("no uv on the path")
    told = {"UV_DEFAULT_INDEX": index_url()}
    if certificates := os.environ.get("SSL_CERT_FILE") or pip_setting("cert"):
        told["SSL_CERT_FILE"] = certificates
    run(uv, "pip", *wanted(groups), "--python", PYTHON, "--quiet", **told)


def fill_with_pip(groups: list[str]) -> None:
    """Install with pip, showing that it is alive."""
    provide_pip()
    command = [str(PYTHON), "-m", "pip", *wanted(groups), "--progress-bar", "off", "--disable-pip-version-check"]
    told = {**os.environ, "PIP_INDEX_URL": index_url()}
    lines: list[str] = []
    found = 0
    with subprocess.Popen(
        command, cwd=ROOT, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        for line in pip.stdout or ():
            lines.append(line)
            if line.startswith("Collecting "):
                found += 1
                if found % 20 == 0:
                    say(f"  {found} packages found")
            elif line.startswith("Installing collected"):
                say("  installing them")
    if pip.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed:\n{''.join(lines[-40:])}")


def main(groups: list[str]) -> int:
    """Make or update the environment; 0 when it is ready."""
    if sys.version_info < OLDEST_PYTHON:
        print(f"Frazil needs Python 3.11 or newer, and this is {sys.version.split()[0]}.")
        print("Name another one like this: make PYTHON=python3.12 test")
        return 1
    try:
        create()
        say(f"installing {' and '.join(['frazil', *groups])} into {VENV.name} (minutes at first, seconds later)")
        try:
            fill_with_uv(groups)
        except Failed as failed:
            if shutil.which("uv"):
                say(f"uv did not manage, trying pip. {failed}")
            fill_with_pip(groups)
    except Failed as failed:
        print(failed)
        return 1
    stamp = VENV / f".ready-{'-'.join(name for name in groups if '==' not in name) or 'base'}"
    stamp.touch()
    say("ready")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
