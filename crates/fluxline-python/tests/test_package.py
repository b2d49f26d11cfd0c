"""The package as it is installed."""

import importlib.metadata

import fluxline as fl


def test_the_wheel_has_the_version_of_the_library():
    assert fl.__version__ == importlib.metadata.version("fluxline")
