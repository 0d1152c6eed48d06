"""A private PostgreSQL server for tests, from the programs of Debian's package, gone when the tests end.

`postgres_url` gives a test an empty database of its own. The server listens on a socket in its temporary folder and
nowhere else, so servers of several test processes never meet. Where there are no programs, the test is skipped; with
`FRAZIL_TEST_REQUIRE=postgres` in the environment, as continuous integration sets it, it fails instead.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")


def is_required(service: str) -> bool:
    """Whether tests that need a service must run rather than be skipped."""
    return service in os.environ.get("FRAZIL_TEST_REQUIRE", "").split(",")


def find_programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl`: the newest of Debian's, or whatever is on the path."""
    versions = [folder for folder in DEBIAN_PROGRAMS.glob("*/bin") if (folder / "initdb").exists()]
    if versions:
        return max(versions, key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def unprivileged_user() -> str | None:
    """Whom to run the server as: PostgreSQL refuses root. None means as who we are."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class PostgresServer:
    """A running server, and the way to make databases in it."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix="frazil-postgres-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)

    def _run(self, program: str, *arguments: str) -> None:
        # The server outlives pg_ctl and would keep a pipe open for ever, so output goes to a file.
        command = [str(self._programs / program), *arguments]
        output = self.folder / "output.log"
        with output.open("ab") as log:
            done = subprocess.run(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                check=False,
                cwd=self.folder,
                user=self._user,
                extra_groups=[] if self._user else None,
            )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read_text(errors='replace')}")

    def start(self) -> None:
        """Make the server's files and wait until it answers."""
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=100"
        self._run("pg_ctl", "-D", data, "-w", "-o", options, "-l", str(self.folder / "server.log"), "start")

    def stop(self) -> None:
        """End the server at once and remove its files."""
        try:
            if (self.folder / "data" / "postmaster.pid").exists():
                self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self) -> str:
        """Make an empty database and return its URL."""
        name = f"test_{uuid.uuid4().hex}"
        self._run("createdb", "-h", str(self.folder), "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={quote(str(self.folder), safe='')}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for the whole run of one test process."""
    programs = find_programs()
    if programs is None:
        missing = "no PostgreSQL server here: install Debian's package `postgresql` to run this test"
        if is_required("postgres"):
            pytest.fail(missing)
        pytest.skip(missing)
    server = PostgresServer(programs)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database that belongs to this test alone."""
    return postgres_server.create_database()
