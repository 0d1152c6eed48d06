"""What every test can use: services, and how hypothesis runs."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.postgres_service", "tests.s3_service", "tests.spark_session"]

# `make test` gives the same answer twice; HYPOTHESIS_PROFILE=explore looks for what it has not seen yet.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
