"""Waiting for a task in asyncio: it sleeps on the link's descriptor.

All tasks of a node share its descriptor, of which a loop has one reader at a time. So a bell wakes
all tasks that wait on a descriptor, and each looks for its own result.
"""

import asyncio
import time
from typing import Any

from fluxline._fluxline import Task
from fluxline.errors import InputError

# A link without a descriptor is polled: first as often as the loop can, then every half millisecond.
_BUSY_S = 200e-6
_NAP_S = 500e-6


class _Bell:
    """The tasks that wait on one descriptor of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self.loop = loop
        self.descriptor = descriptor
        self.waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        for one in self.waiting:
            if not one.done():
                one.set_result(None)


_bells: dict[tuple[int, int], _Bell] = {}


async def _readable(descriptor: int, seconds: float | None) -> None:
    """Sleep until the descriptor is readable, for some seconds at most."""
    loop = asyncio.get_running_loop()
    key = (id(loop), descriptor)
    bell = _bells.get(key)
    if bell is None:
        bell = _bells[key] = _Bell(loop, descriptor)
        loop.add_reader(descriptor, bell.ring)
    one: asyncio.Future[None] = loop.create_future()
    bell.waiting.add(one)
    try:
        await asyncio.wait([one], timeout=seconds)
    finally:
        bell.waiting.discard(one)
        if not bell.waiting:
            loop.remove_reader(descriptor)
            _bells.pop(key, None)


async def finish(task: Task) -> Any:
    """Return the result of a task; it is cancelled with the coroutine."""
    if task.is_virtual:
        raise InputError(
            "a simulated link needs a thread that waits; use the calls without begin_"
        )
    began = time.monotonic()
    try:
        while not task.step():
            descriptor, deadline = task.descriptor, task.deadline
            if descriptor is not None:
                # A ring without room rings no bell: look again soon.
                limit = 0.001 if task.is_polled else 0.1
                await _readable(descriptor, limit if deadline is None else min(deadline, limit))
            else:
                is_busy = time.monotonic() - began < _BUSY_S
                await asyncio.sleep(0 if is_busy else _NAP_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()
