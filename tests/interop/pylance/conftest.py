"""Older releases of pylance, each in an environment of its own.

Opt-in: `make interop` makes them, and names their Pythons (paths separated by colons) by FRAZIL_PYLANCE_PYTHONS.
"""

from __future__ import annotations

import os

PYTHONS = [python for python in os.environ.get("FRAZIL_PYLANCE_PYTHONS", "").split(":") if python]
collect_ignore_glob = [] if PYTHONS else ["test_*.py"]
