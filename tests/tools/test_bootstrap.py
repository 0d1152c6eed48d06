"""The script that makes `.venv` on machines that have next to nothing."""

from __future__ import annotations

import functools
import hashlib
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "bootstrap.py"


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, on a machine that says nothing about its package index."""
    for name in ("PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CERT", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path)
    return module


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index on this machine that serves the folder `simple`."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "simple" / "pip").mkdir(parents=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    thread.join()
    server.server_close()


def offer_wheel(bootstrap: ModuleType, folder: Path, content: bytes) -> None:
    (folder / "pip.whl").write_bytes(content)
    page = f'<a href="../../pip.whl?{bootstrap.PIP_WHEEL}#sha256=0">{bootstrap.PIP_WHEEL}</a>'
    (folder / "simple" / "pip" / "index.html").write_text(page)


def test_the_index_comes_from_the_environment_before_pip_conf(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configuration = tmp_path / ".config" / "pip" / "pip.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("[global]\nindex-url = https://index.example/simple/\n")
    assert bootstrap.index_url() == "https://index.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.example/simple")
    assert bootstrap.index_url() == "https://other.example/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://third.example/simple")
    assert bootstrap.index_url() == "https://third.example/simple"


def test_without_pip_the_wheel_is_fetched_from_the_index_and_installs_itself(
    bootstrap: ModuleType, index: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[tuple[object, ...]] = []
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setattr(bootstrap, "run", lambda *command: commands.append(command))
    monkeypatch.setattr(bootstrap, "PIP_SHA256", hashlib.sha256(b"a wheel").hexdigest())
    offer_wheel(bootstrap, tmp_path, b"a wheel")
    bootstrap.pip_by_download()
    assert [command[1] for command in commands] == [tmp_path / bootstrap.PIP_WHEEL / "pip"]


def test_a_wheel_that_is_not_the_released_one_is_refused_before_it_runs(
    bootstrap: ModuleType, index: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setattr(bootstrap, "run", lambda *command: pytest.fail(f"ran {command}"))
    offer_wheel(bootstrap, tmp_path, b"not pip")
    with pytest.raises(bootstrap.Failed, match="not the file that was released"):
        bootstrap.pip_by_download()


def test_an_index_that_cannot_be_reached_is_named_as_the_reason(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(bootstrap.Failed, match="cannot reach the package index"):
        bootstrap.pip_by_download()


def test_a_package_can_be_had_in_another_version_than_the_locked_one(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "constraints.txt").write_text("pyspark==4.3.0\npyspark-more==1\nnumpy==2.4.6\n")
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    wanted = bootstrap.wanted(["dev", "pyspark==4.0.*"])
    assert wanted[-3:] == ["--group", "dev", "pyspark==4.0.*"]
    assert Path(wanted[2]).read_text() == "pyspark-more==1\nnumpy==2.4.6\n"
    assert bootstrap.wanted(["dev"])[2] == str(tmp_path / "tools" / "constraints.txt")
