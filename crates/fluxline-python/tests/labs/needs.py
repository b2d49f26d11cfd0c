"""Packages that a test needs: without one it is skipped, or fails with FLUXLINE_REQUIRE_TOOLS=1."""

import importlib
import os

import pytest


def package(name):
    """Returns a package."""
    if os.environ.get("FLUXLINE_REQUIRE_TOOLS") == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name)
