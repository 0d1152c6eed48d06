"""A Spark cluster: a master and two workers of their own processes, from the pyspark package alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frazil.spark.session import find_java
from tests.spark.programs import environment

_ROOT = Path(__file__).parents[2]
_START_SECONDS = 60


class Cluster:
    """Processes of Spark's own, with what they logged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"

    def start(self) -> None:
        port = self.master.rpartition(":")[2]
        self._spawn("master", "master.Master", "--port", port)
        self._wait_for("master", "I have been elected leader")
        for number in (1, 2):
            folder = str(self._folder / f"work-{number}")
            self._spawn(f"worker-{number}", "worker.Worker", "-c", "1", "-m", "1g", "-d", folder, self.master)
        for number in (1, 2):
            self._wait_for(f"worker-{number}", "Successfully registered with master")

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def executors(self) -> set[str]:
        """The workers that ran an executor."""
        return {name for name in ("worker-1", "worker-2") if "Launch command" in self.log(name)}

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOG_DIR": str(self._folder),
        }
        find_java()  # sets JAVA_HOME where it must
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}"]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    env=environment(**settings),
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_for(self, name: str, text: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while text not in self.log(name):
            assert time.monotonic() < end, f"{name} did not start:\n{self.log(name)[-3000:]}"
            assert all(process.poll() is None for process in self._running), self.log(name)[-3000:]
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_the_smoke_set_passes_where_executors_are_other_processes(cluster):
    """The tests marked `smoke` run again, in a process whose Spark is the cluster."""
    places = [str(place) for place in (_ROOT / "tests/spark", _ROOT / "tests/conformance") if place.is_dir()]
    settings = {"FRAZIL_TEST_MASTER": cluster.master, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "smoke", "-p", "no:cacheprovider", *places],
        env=environment(**settings),
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert cluster.executors() == {"worker-1", "worker-2"}
