"""Output files that get their name when they are complete."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ._selection import ExportError

SPARE_BYTES = 16 << 20
"""Space that an export leaves free, so that its file can be closed in order."""


class Stopped(ExportError):
    """An export that was stopped between two batches, and goes on with the next call."""


class PartialFile:
    """A file that is written as `NAME.part` and renamed when it is complete."""

    def __init__(self, path: str | os.PathLike[str], overwrite: bool = False):
        self.path = Path(path)
        self.part = self.path.with_name(self.path.name + ".part")
        if self.path.is_dir():
            raise ExportError(f"{self.path} is a directory; give the name of a file.")
        if self.path.exists() and not overwrite:
            raise ExportError(f"{self.path} exists already; choose another name or overwrite it.")
        if not self.path.parent.is_dir():
            raise ExportError(f"the directory {self.path.parent} does not exist; make it first.")

    def require(self, wanted: int) -> None:
        """Stops the export while its file can still be closed: before the disk is full."""
        free = shutil.disk_usage(self.path.parent).free
        if free < wanted + SPARE_BYTES:
            raise Stopped(
                f"{self.path.parent} has {free / 1e6:.0f} MB left, too little to go on; free some "
                f"space and repeat the export, which continues behind the rows in {self.part}."
            )

    def finish(self) -> int:
        """Gives the file its name, after its bytes are on the disk; returns its size."""
        with open(self.part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(self.part, self.path)
        return self.path.stat().st_size

    def remove(self) -> None:
        """Removes an unusable part."""
        self.part.unlink(missing_ok=True)
