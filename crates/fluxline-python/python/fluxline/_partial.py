"""Output files that get their name when they are complete."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO

from ._selection import ExportError

SPARE_BYTES = 16 << 20
"""Space that an export leaves free, so that its file can be closed in order."""


class Stopped(ExportError):
    """An export that was stopped between two batches; the next call continues or begins anew."""


class PartialFile:
    """A file that is written as `NAME.part` and renamed when it is complete."""

    def __init__(self, path: str | os.PathLike[str], overwrite: bool = False,
                 continues: bool = False):
        self.path, self.continues = Path(path), continues
        self.part = self.path.with_name(self.path.name + ".part")
        if self.path.is_dir():
            raise ExportError(f"{self.path} is a directory; give the name of a file.")
        if os.path.lexists(self.path) and not overwrite:
            raise ExportError(f"{self.path} exists already; choose another name or overwrite it.")
        if not self.path.parent.is_dir():
            raise ExportError(f"the directory {self.path.parent} does not exist; make it first.")

    def require(self, wanted: int) -> None:
        """Stops the export while its file can still be closed: before the disk is full."""
        free = shutil.disk_usage(self.path.parent).free
        if free < wanted + SPARE_BYTES:
            then = f"continues behind the rows in {self.part}" if self.continues else "begins anew"
            raise Stopped(
                f"{self.path.parent} has {free / 1e6:.0f} MB left, too little to go on; free some "
                f"space and repeat the export, which {then}."
            )

    def finish(self) -> int:
        """Gives the file its name, after its bytes are on the disk; returns its size."""
        with open(self.part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(self.part, self.path)
        return self.path.stat().st_size

    def create(self) -> BinaryIO:
        """Makes the part, in place of one that is left; links are not followed."""
        self.part.unlink(missing_ok=True)
        return os.fdopen(os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), "w+b")

    def remove(self) -> None:
        """Removes an unusable part."""
        self.part.unlink(missing_ok=True)


class Storage(io.RawIOBase):
    """The bytes of an HDF5 file. After a failed write, later ones are accepted and forgotten.

    The HDF5 library cannot close a file whose writes fail: it tries again at the end of the
    process, and crashes. So the failure is kept here, and `check` raises it.
    """

    def __init__(self, path: Path, is_new: bool):
        super().__init__()
        # The folder may come from anywhere: a part that is a link or a pipe is not followed.
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if is_new else 0)
        self._file = os.open(path, flags, 0o644)
        try:
            found = os.fstat(self._file)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise OSError(errno.EEXIST, "it is a link or not a file; remove it")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_new:
                os.ftruncate(self._file, 0)
        except OSError:
            os.close(self._file)
            raise
        self._at = 0
        self.failure: OSError | None = None

    def check(self) -> None:
        """Raises the first failure of a write."""
        if self.failure is not None:
            raise self.failure

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self._file).st_size if base is None else base)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._file, [buffer], self._at)
        self._at += count
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = len(view) if self.failure else 0
        try:
            while done < len(view):
                done += os.pwrite(self._file, view[done:], self._at + done)
        except OSError as error:
            self.failure = error
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            self.failure = self.failure or error
        return size

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()
