"""Exceptions of fluxline. The message of each has the words of the command line."""


class Error(Exception):
    """Something that fluxline could not do: what, where, and what to do about it."""


class InputError(Error, ValueError):
    """An argument, a file or an array is wrong."""


class LinkError(Error):
    """The link, the host or the peer refused."""


class Full(LinkError):
    """A queue or a ring is full; poll or wait, then try again."""


class Gone(LinkError):
    """The peer has closed its end, or its process has died."""


class RegionGone(LinkError):
    """The region was withdrawn, or its node is closed."""


class Timeout(LinkError, TimeoutError):
    """Nothing came in time."""


class RunError(Error):
    """A run folder is missing, damaged, or of another version."""


class BenchError(Error):
    """A benchmark could not measure."""


class SimulationError(Error):
    """A scenario is wrong, or its network cannot be built."""


class DamageWarning(UserWarning):
    """Recorded data of a run could not be read, so rows are missing."""
