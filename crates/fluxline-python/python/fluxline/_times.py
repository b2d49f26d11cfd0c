"""Times of selections: the same values mean the same here, in exports and on the command line."""

from __future__ import annotations

import datetime
import math
import numbers

import numpy as np

from ._fluxline import parse_time
from .errors import InputError

Time = datetime.datetime | np.datetime64 | str | int | float
"""Seconds since 1970, a date with a time, `numpy.datetime64`, or a text as `--since` takes it."""

_LAST_S = 253_402_300_800
"""The year 10000: a greater number was meant in another unit."""


def nanoseconds(time: Time | None) -> int | None:
    """Returns nanoseconds since 1970; a time without a zone is in UTC."""
    if time is None:
        return None
    if isinstance(time, str):
        return parse_time(time)
    if isinstance(time, datetime.datetime):
        return _in_range(_of_datetime(time), time)
    if isinstance(time, np.datetime64):
        if np.isnat(time):
            raise InputError(f"{time!r} is not a time")
        return _in_range(int(time.astype("datetime64[ns]").astype(np.int64)), time)
    if isinstance(time, numbers.Real) and not isinstance(time, bool):
        return _of_seconds(time)
    raise InputError(f"{time!r} is {type(time).__name__}, not a time; pass seconds since 1970, a "
                     "datetime, a numpy.datetime64, or a text such as 2026-11-23T12:00:00Z")


def _of_datetime(time: datetime.datetime) -> int:
    zoned = time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)
    since = zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1) * 1000


def _of_seconds(seconds: numbers.Real) -> int:
    if not math.isfinite(seconds) or not 0 <= seconds < _LAST_S:
        raise InputError(f"{seconds} is not a time in seconds since 1970; pass nanoseconds as "
                         "numpy.datetime64(..., 'ns')")
    if isinstance(seconds, numbers.Integral):
        return int(seconds) * 1_000_000_000
    return round(float(seconds) * 1e9)


def _in_range(ns: int, time: object) -> int:
    if not 0 <= ns < _LAST_S * 1_000_000_000:
        raise InputError(f"{time!r} is not between 1970 and the year 9999")
    return ns
