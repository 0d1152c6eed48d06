"""A private S3 server for tests: moto's, in a thread of the test process, on a port of its own on the loopback.

`s3_service` is the server; `s3_bucket` gives a test an empty bucket and the properties to reach it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

ACCESS_KEY, SECRET_KEY = "AKIACANARYCANARY", "secretCanarySecretCanary"


@dataclass(frozen=True)
class S3Bucket:
    """A bucket: its location, and the properties of a store that can open it."""

    location: str
    properties: dict[str, str]


@pytest.fixture(scope="session")
def s3_service() -> Iterator[str]:
    """The endpoint of a running S3 server."""
    server_module = pytest.importorskip("moto.server")
    # One line per request is not what a failing test should print.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_bucket(s3_service: str) -> S3Bucket:
    """An empty bucket of the test's own."""
    return create_bucket(s3_service)


def create_bucket(endpoint: str) -> S3Bucket:
    """Make a bucket with a new name."""
    import urllib.request

    name = f"test-{uuid.uuid4()}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"), timeout=30).close()
    properties = {
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    return S3Bucket(f"s3://{name}", properties)
