"""Fluxline: data acquisition over real and simulated links."""

from fluxline._fluxline import VERSION as __version__

__all__ = ["__version__"]
