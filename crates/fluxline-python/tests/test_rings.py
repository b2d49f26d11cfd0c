"""Push rings: records as arrays, once and in order, also when an end dies."""

import asyncio
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import fluxline as fl


def ring(pair, **options):
    """Return both ends of a ring from the writer to the owner."""
    receiver = pair.owner.receiver("records", 5, **options)
    sender = pair.driven(pair.writer.begin_sender(pair.names[0], "records", 5))
    return receiver, sender


def test_records_arrive_once_and_in_order_with_their_times(pair, rng):
    receiver, sender = ring(pair, slots=256, slot_bytes=256, batch=50)
    sent = [rng.bytes(int(length)) for length in rng.integers(0, 200, 100)]
    for number, record in enumerate(sent):
        sender.push(record, stamp=1000 + number)
    sender.publish()
    found, stamps = [], []
    while len(found) < len(sent):
        records = receiver.read(stamped=True, timeout=5)
        assert 0 < len(records) <= 50
        assert [bytes(records[at]) for at in range(len(records))] == [bytes(r) for r in records]
        found += [bytes(record) for record in records]
        stamps += records.stamps.tolist()
    assert found == sent
    assert stamps == [1000 + number for number in range(100)]
    assert receiver.counters()["records"] == sender.counters()["records"] == 100


def test_the_short_program_loses_or_doubles_a_record(pair):
    ring = pair.owner.receiver("samples", 7, slots=64, slot_bytes=4096)

    def push():
        ring = pair.writer.sender(pair.names[0], "samples", 7)
        for number in range(300):
            ring.push_wait(bytes([number % 256]) * 4096)
        ring.finish()

    sensor = threading.Thread(target=push)
    sensor.start()
    found = [bytes(record) for record in ring.records()]
    sensor.join()
    assert found == [bytes([number % 256]) * 4096 for number in range(300)]


def test_a_sensor_that_never_comes_is_not_named_a_timeout(pair):
    ring = pair.owner.receiver("samples", 7, slot_bytes=64)
    with pytest.raises(fl.Timeout):
        next(ring.records(timeout=0.05))


def test_rows_of_an_array_cross_as_rows_of_an_array(shm, rng):
    receiver, sender = ring(shm, slots=4096, slot_bytes=64)
    rows = rng.integers(-(2**15), 2**15, (1000, 32), dtype=np.int16)
    sender.push_rows(rows)
    records = receiver.read(timeout=5)
    assert records.array(np.int16).shape == (1000, 32)
    assert (records.array(np.int16) == rows).all()
    assert records.array().base is not None, "no copy"
    with pytest.raises(fl.InputError, match="not a row of"):
        records.array(np.dtype([("a", "u1", 7)]))
    with pytest.raises(IndexError):
        records[1000]
    with pytest.raises(fl.InputError, match="two-dimensional"):
        sender.push_rows(rows[0])
    sender.push_rows(rows[:0])
    sender.push(b"1")
    sender.push(b"22")
    sender.publish()
    with pytest.raises(fl.InputError, match="1 to 2 bytes"):
        receiver.read(timeout=5).array()


def test_the_callers_arrays_are_filled_and_a_record_that_does_not_fit_is_not_lost(shm):
    receiver, sender = ring(shm)
    sender.push(b"x" * 100)
    sender.push(b"y" * 100)
    sender.publish()
    ends = np.zeros(4, np.int64)
    with pytest.raises(fl.InputError, match="100 bytes does not fit into an array of 99"):
        receiver.read_into(np.zeros(99, np.uint8), ends)
    data = np.zeros(150, np.uint8)
    assert receiver.read_into(data, ends) == 1
    assert ends[0] == 100 and data[:100].tobytes() == b"x" * 100
    assert receiver.read_into(data, ends) == 1 and data[:100].tobytes() == b"y" * 100
    for data, ends, says in [
        (np.zeros(9, np.int8).astype(np.int16), np.zeros(4, np.int64), "uint8"),
        (np.zeros(9, np.uint8), np.zeros(4, np.int32), "int64"),
        (np.zeros(9, np.uint8), np.zeros(0, np.int64), "no elements"),
        (np.zeros(9, np.uint8), np.zeros(8, np.int64)[::2], "contiguous"),
    ]:
        with pytest.raises(fl.InputError, match=says):
            receiver.read_into(data, ends)


def test_a_full_ring_holds_the_sender_back_and_loses_nothing(shm, rng):
    receiver, sender = ring(shm, slots=16, slot_bytes=1024)
    with pytest.raises(fl.Timeout, match="room"):
        sender.push_rows(np.zeros((1000, 1024), np.uint8), timeout=0.1)
    got = 0
    while True:
        try:
            got += len(receiver.read(timeout=0.1))
        except fl.Timeout:
            break
    assert 16 <= got < 1000
    rows = rng.integers(0, 255, (5000, 1000), dtype=np.uint8)
    thread = threading.Thread(target=lambda: (sender.push_rows(rows), sender.finish()))
    thread.start()
    parts = [records.array().copy() for records in receiver]
    thread.join(30)
    assert not thread.is_alive()
    assert (np.concatenate(parts) == rows).all()


def test_a_record_that_is_too_long_is_refused(shm):
    receiver, sender = ring(shm, slots=4, slot_bytes=64)
    with pytest.raises(fl.InputError, match="too long"):
        sender.push(bytes(10_000))
    sender.push(b"fits")
    sender.finish()
    assert [bytes(one) for records in receiver for one in records] == [b"fits"]
    with pytest.raises(fl.LinkError, match="closed"):
        sender.push(b"more")


def test_a_closed_receiver_ends_its_sender(pair):
    receiver, sender = ring(pair)
    receiver.close()
    with pytest.raises(fl.LinkError):
        receiver.read(timeout=1)
    with pytest.raises((fl.Gone, fl.LinkError)):
        for _ in range(1000):
            sender.push(b"nobody")
            sender.publish()
            pair.owner.wait(0.01)
            pair.writer.wait(0.01)


CHILD = """
    import os, signal, sys
    import fluxline as fl
    node = fl.open(sys.argv[1])
    ring = node.sender("owner", "records", 5)
    for number in range(100):
        ring.push(number.to_bytes(8, "little"))
    ring.publish()
    ring.push(b"never published")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_records_of_a_sender_that_dies_are_read_and_then_it_is_gone(shm):
    receiver = shm.owner.receiver("records", 5)
    url = shm.owner.url.replace("/owner", "/child")
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), url])
    numbers = [int(n) for records in receiver for n in records.array(np.uint64).ravel()]
    child.wait(10)
    assert numbers == list(range(100))
    assert receiver.counters()["died"] == 1


def test_rings_links_and_messages_in_asyncio(pair):
    async def both():
        receiver = pair.owner.receiver("records", 5)

        async def send():
            sender = await pair.writer.begin_sender(pair.names[0], "records", 5)
            sender.push_rows(np.arange(1000, dtype=np.uint64).reshape(1000, 1))
            endpoint = await pair.writer.begin_connect(pair.names[0])
            await endpoint.begin_send(b"and a message")

        async def receive():
            numbers = []
            while len(numbers) < 1000:
                records = await receiver.read_async()
                numbers += records.array(np.uint64).ravel().tolist()
            return numbers

        async def message():
            buffer = pair.owner.register(128)
            # The ring has a connection of its own, on which no message comes.
            waiting = []
            for number in range(2):
                completion = await pair.owner.begin_next()
                assert isinstance(completion, fl.Completion.Connected)
                task = completion.endpoint.begin_receive(buffer, 64 * number, 64)
                waiting.append(asyncio.ensure_future(numbered(number, task)))
            done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            number, length = done.pop().result()
            for one in left:
                one.cancel()
            return buffer.read(64 * number, length)

        async def numbered(number, task):
            return number, await task

        _, numbers, text = await asyncio.gather(send(), receive(), message())
        assert numbers == list(range(1000))
        assert text == b"and a message"

    asyncio.run(asyncio.wait_for(both(), 30))
