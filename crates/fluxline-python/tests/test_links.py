"""Links: regions as arrays, puts, gets, atomics, messages, and the ends of peers."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fluxline as fl


def test_a_put_is_seen_in_the_owners_array_without_a_copy(pair, rng):
    region, remote = pair.region(1 << 16)
    array = region.array(np.int16)
    assert array.base is not None and len(array) == 1 << 15
    samples = rng.integers(-1000, 1000, 1000, dtype=np.int16)
    remote.put(samples, 64, notify=9)
    while True:
        pair.writer.wait(0.001)
        match pair.owner.poll():
            case fl.Completion.Notified(offset=64, bytes=2000, value=9, region=seen):
                assert seen.id == region.id
                break
            case fl.Completion.Connected() | None:
                pass
    assert (array[32:1032] == samples).all()
    assert (region.array(np.int16, offset=64, count=1000) == samples).all()


def test_gets_and_atomics_return_the_owners_bytes(pair, rng):
    region, remote = pair.region(4096)
    data = rng.bytes(1000)
    region.write(data, 8)
    into = pair.writer.register(4096)
    pair.driven(remote.begin_get(into, offset=8, into_offset=16, count=1000))
    assert into.read(16, 1000) == data
    region.store(2048, 40)
    assert pair.driven(remote.begin_fetch_add(2048, 2)) == 40
    assert region.load(2048) == 42
    assert pair.driven(remote.begin_fetch_add(2048, 2**64 - 1)) == 42
    assert region.load(2048) == 41, "addition is modulo 2^64"
    into.store(8, 5)
    assert into.compare_swap(8, 5, 6) == 5 and into.compare_swap(8, 5, 7) == 6


def test_puts_and_atomics_are_awaited_and_a_full_queue_loses_none(pair, rng):
    region, remote = pair.region(1 << 16)

    async def serve(done):
        while not done.done():
            pair.owner.wait(0)
            pair.owner.poll()
            await asyncio.sleep(0)

    async def write():
        await remote.begin_put(samples, 8, notify=3)
        assert (region.array(np.int16, offset=8, count=1000) == samples).all(), "it is placed"
        # More work than the queue has room for.
        puts = [remote.begin_put(bytes([number % 256]) * 16, 4096 + 16 * number)
                for number in range(3000)]
        for put in puts:
            await put
        assert await remote.begin_compare_swap(0, 0, 40) == 0
        assert await remote.begin_compare_swap(0, 0, 50) == 40, "it was not zero any more"
        return await remote.begin_fetch_add(0, 2)

    async def both():
        writing = asyncio.ensure_future(write())
        await asyncio.gather(serve(writing), writing)
        return writing.result()

    samples = rng.integers(-1000, 1000, 1000, dtype=np.int16)
    assert asyncio.run(both()) == 40 and region.load(0) == 42
    found = region.array(offset=4096, count=16 * 3000).reshape(3000, 16)
    assert (found == (np.arange(3000) % 256)[:, np.newaxis]).all()
    with pytest.raises((fl.InputError, fl.RegionGone)):
        pair.driven(remote.begin_put(bytes(100), (1 << 16) - 50))
    dropped = remote.begin_put(b"dropped", 0)
    del dropped
    gc.collect()
    assert pair.driven(remote.begin_fetch_add(8)) is not None, "the node is usable"


def test_blocking_calls_work_beside_the_peers_thread(shm):
    """The other end polls in a thread: the interpreter is free while a call waits."""
    region = shm.owner.register(4096)
    region.export("samples", 7, get=True, atomic=True)
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            shm.owner.wait(0.01)
            shm.owner.poll()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        endpoint = shm.writer.connect("owner", timeout=5)
        assert endpoint.peer == "owner"
        remote = endpoint.import_region("samples", 7, timeout=5)
        assert (remote.name, len(remote)) == ("samples", 4096)
        assert [remote.fetch_add(0) for _ in range(100)] == list(range(100))
        remote.put(b"abc", 100)
        endpoint.flush()
        assert region.read(100, 3) == b"abc"
        with pytest.raises(fl.InputError, match="multiples of 8"):
            remote.fetch_add(4)
        with pytest.raises(fl.InputError, match="region"):
            remote.put(bytes(100), 4090)
            endpoint.flush()
    finally:
        stop.set()
        thread.join()


def test_messages_arrive_in_the_posted_buffers(pair, rng):
    at_owner, at_writer = pair.connect()
    buffers = pair.owner.register(4096)
    first = at_owner.begin_receive(buffers, 0, 1000)
    second = at_owner.begin_receive(buffers, 1000, 1000)
    data = rng.integers(0, 2**32, 100, dtype=np.uint32)
    pair.driven(at_writer.begin_send(data))
    pair.driven(at_writer.begin_send(b"second"))
    assert first.result(timeout=5) == 400 and second.result(timeout=5) == 6
    assert (buffers.array(np.uint32, count=100) == data).all()
    assert buffers.read(1000, 6) == b"second"


def test_tagged_puts_complete_once_and_untagged_ones_never(pair):
    _, remote = pair.region(4096)
    remote.put(b"quiet")
    for tag in (3, 0, 2**63 - 1):
        remote.put(b"abc", tag=tag)
    tags = []
    until = time.monotonic() + 5
    while len(tags) < 3 and time.monotonic() < until:
        pair.owner.wait(0.001)
        match pair.writer.poll():
            case fl.Completion.Done(ok=True, operation="put", tag=tag):
                tags.append(tag)
    assert tags == [3, 0, 2**63 - 1]
    assert pair.writer.poll() is None
    assert pair.writer.counters()["puts"] == 4
    with pytest.raises(fl.InputError, match="2\\^63"):
        remote.put(b"abc", tag=2**63)


def test_a_held_array_outlives_its_region_and_its_node(pair):
    region, remote = pair.region(4096)
    array = region.array(np.uint64)
    array[0] = 7
    region.withdraw()
    array[1] = 8
    for call in (region.array, region.load, lambda: memoryview(region), lambda: region.write(b"a")):
        with pytest.raises((fl.RegionGone, BufferError)):
            call()
    other = pair.owner.register(4096)
    kept = other.array()
    kept[:] = 3
    pair.owner.close()
    with pytest.raises(fl.RegionGone, match="withdrawn"):
        other.read()
    del region, other
    gc.collect()
    assert array[:2].tolist() == [7, 8] and (kept == 3).all()
    kept[0] = 1
    with pytest.raises(fl.LinkError, match="closed"):
        pair.owner.register(8)


def test_work_on_a_withdrawn_region_fails_and_the_connection_stays(shm):
    region, remote = shm.region(4096)
    region.withdraw()
    with pytest.raises((fl.RegionGone, fl.InputError)):
        shm.driven(remote.begin_fetch_add(0))
    again = shm.owner.register(64)
    again.export("more", 1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (np.zeros((4, 4), np.int32)[:, 1], "contiguous"),
        (np.zeros((4, 4), np.int32).T[1:], "contiguous"),
        ("text", "str"),
        (3, "int"),
        (None, "NoneType"),
    ],
)
def test_data_that_is_no_contiguous_memory_is_refused(shm, data, says):
    _, remote = shm.region(4096)
    with pytest.raises(fl.InputError, match=says):
        remote.put(data)


def test_arrays_to_be_filled_have_the_right_type_order_and_rights(shm):
    region = shm.owner.register(64)
    fixed = np.zeros(8, np.uint8)
    fixed.flags.writeable = False
    for into, says in [
        (np.zeros(8, np.float32), "uint8"),
        (np.zeros(16, np.uint8)[::2], "contiguous"),
        (fixed, "read-only"),
        (b"12345678", "read-only"),
    ]:
        with pytest.raises(fl.InputError, match=says):
            region.read_into(into)
    with pytest.raises(fl.InputError, match="72|leaves|region"):
        region.read_into(np.zeros(72, np.uint8))
    for wrong in (
        lambda: region.read(65, 0),
        lambda: region.read(0, 65),
        lambda: region.read(2**64 - 1, 2),
        lambda: region.write(b"a", 64),
        lambda: region.load(60),
        lambda: region.load(64),
        lambda: region.array(np.int16, offset=63),
        lambda: region.array(np.int64, count=9),
    ):
        with pytest.raises(fl.InputError):
            wrong()
    with pytest.raises((OverflowError, TypeError)):
        region.read(-1)
    ours, theirs = shm.connect()
    with pytest.raises(fl.InputError, match="another node"):
        theirs.begin_receive(region, 0, 8)
    ours.disconnect()


def test_names_urls_and_keys_that_are_wrong_are_sentences(shm):
    for url, says in [
        ("tcp://127.0.0.1", "names no link"),
        ("", "write shm://GROUP/NODE"),
        ("shm://lab", "for example shm://lab/builder"),
        ("udp://here", "known host"),
    ]:
        with pytest.raises(fl.LinkError, match=says):
            fl.open(url)
    region = shm.owner.register(64)
    with pytest.raises(fl.InputError, match="is not a name"):
        region.export("a b", 1)
    region.export("samples", 7)
    _, endpoint = shm.connect()
    with pytest.raises(fl.InputError, match="key"):
        shm.driven(endpoint.begin_import_region("samples", 8))
    with pytest.raises(fl.LinkError, match="no region of that name"):
        shm.driven(endpoint.begin_import_region("sample", 7))
    with pytest.raises(fl.InputError, match="seconds"):
        shm.writer.connect("owner", timeout=float("nan"))


def test_waiting_ends_in_time(shm):
    began = time.monotonic()
    with pytest.raises(fl.Timeout, match="nobody"):
        shm.writer.connect("nobody", timeout=0.1)
    with pytest.raises(TimeoutError, match="0.05 s"):
        shm.writer.next(timeout=0.05)
    assert shm.writer.wait(0.05) is False
    assert list(shm.writer.completions(timeout=0.02)) == []
    assert 0.2 < time.monotonic() - began < 5


CHILD = """
    import os, signal, sys, time
    import fluxline as fl
    node = fl.open(sys.argv[1])
    endpoint = node.connect("owner")
    remote = endpoint.import_region("samples", 7)
    remote.put(b"alive", notify=1)
    endpoint.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_death_of_a_peer_is_a_completion_and_its_bytes_stay(shm):
    region = shm.owner.register(64)
    region.export("samples", 7)
    array = region.array()
    url = shm.owner.url.replace("/owner", "/child")
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), url])
    kinds = []
    for completion in shm.owner.completions(timeout=10):
        kinds.append(type(completion).__name__.rpartition("_")[2])
        if isinstance(completion, fl.Completion.Broken):
            assert completion.status
            break
    assert child.wait(10) == -signal.SIGKILL
    assert kinds == ["Connected", "Notified", "Broken"]
    assert array[:5].tobytes() == b"alive"


INTERRUPTED = """
    import os, signal, sys, threading
    import fluxline as fl
    # A parent in the background may have made this process ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    node = fl.open(sys.argv[1])
    ring = node.receiver("r", 1)
    calls = {
        "next": lambda: node.next(),
        "read": lambda: ring.read(),
        "connect": lambda: node.connect("nobody", timeout=60),
        "simulate": lambda: fl.simulate({"network": {"kind": "sci-ring", "nodes": 8},
            "run": {"loads": [n / 500 for n in range(1, 50)], "duration-us": 100000.0}}),
    }
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        calls[sys.argv[2]]()
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("call", ["next", "read", "connect", "simulate"])
def test_ctrl_c_ends_a_call_that_waits(call):
    url = f"shm://py-{os.getpid()}-{call}/node"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), url, call],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.stdout == "interrupted\n" and done.returncode == 0, done.stderr
    assert time.monotonic() - began < 30


EXIT = """
    import sys, threading
    import fluxline as fl
    node = fl.open(sys.argv[1])
    region = node.register(4096)
    array = region.array()
    ring = node.receiver("r", 1)
    threading.Thread(target=ring.read, daemon=True).start()
    threading.Thread(target=node.next, daemon=True).start()
"""


def test_the_interpreter_ends_while_threads_wait():
    url = f"shm://py-{os.getpid()}-exit/node"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(EXIT), url], timeout=30, check=False,
        capture_output=True, text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_simulated_link_runs_in_virtual_time_with_a_thread_for_each_node():
    world = f"sim:sci/py-{os.getpid()}"
    found = {}

    def owner():
        with fl.open(f"{world}/owner?nodes=2") as node:
            region = node.register(4096)
            region.export("samples", 7)
            for completion in node.completions(timeout=1.0):
                if isinstance(completion, fl.Completion.Notified):
                    found["bytes"] = region.read(0, 5)
                    found["at_ns"] = node.now_ns
                    break

    thread = threading.Thread(target=owner)
    thread.start()
    with fl.open(f"{world}/writer?nodes=2") as node:
        remote = node.connect("owner").import_region("samples", 7)
        remote.put(b"virtual"[:5], notify=1)
        node.wait(0.001)
        with pytest.raises(fl.InputError, match="thread"):
            node.begin_next().__await__().send(None)
    thread.join(30)
    assert not thread.is_alive()
    assert found["bytes"] == b"virtu" and 0 < found["at_ns"] < 1e9


def test_a_link_without_room_says_so_and_goes_on(shm):
    _, remote = shm.region(64)
    for _ in range(100_000):
        remote.put(b"12345678", timeout=5)
    shm.driven(remote.begin_fetch_add(0))
    assert shm.writer.counters()["puts"] == 100_000


def test_a_window_stores_into_the_peers_memory(shm):
    region, remote = shm.region(4096)
    window = remote.window()
    window.array(np.uint16)[:3] = [1, 2, 3]
    assert region.array(np.uint16)[:3].tolist() == [1, 2, 3]
    window.store(64, 99)
    assert region.load(64) == 99
    read_only = shm.owner.register(64)
    read_only.export("fixed", 3, put=False, get=True)
    endpoint = shm.connect()[1]
    fixed = shm.driven(endpoint.begin_import_region("fixed", 3)).window()
    assert fixed.read(0, 4) == bytes(4)
    with pytest.raises(fl.InputError):
        fixed.write(b"no")
    with pytest.raises(BufferError, match="no address"):
        fixed.array()


def test_closing_a_node_ends_the_calls_of_other_threads(shm):
    caught = []

    def wait():
        try:
            shm.owner.next()
        except fl.LinkError as error:
            caught.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    shm.owner.close()
    for thread in threads:
        thread.join(5)
    assert caught == ["the node is closed; open another one"] * 3


def test_threads_share_a_node_in_turns(shm):
    """No call is lost, and no thread waits for the interpreter while it holds the node."""
    region, remote = shm.region(4096)
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            shm.owner.wait(0.001)
            shm.owner.poll()

    def add():
        for _ in range(200):
            remote.fetch_add(8)
            shm.writer.poll()

    server = threading.Thread(target=serve)
    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in [server, *threads]:
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    server.join(5)
    assert region.load(8) == 800


def test_tasks_that_are_dropped_or_cancelled_leave_the_node_usable(pair):
    region, remote = pair.region(4096)
    for _ in range(100):
        remote.begin_fetch_add(0)
    task = remote.begin_fetch_add(0)
    task.cancel()
    with pytest.raises(fl.InputError, match="taken already"):
        task.result()
    assert pair.driven(remote.begin_fetch_add(0)) == 101
    assert pair.writer.poll() is None
    pair.writer.begin_connect("nobody" if pair.names[0] == "owner" else "127.0.0.1:9")
    gc.collect()
    assert pair.driven(remote.begin_fetch_add(0)) == 102


def test_work_in_progress_ends_when_the_peer_closes(pair):
    at_owner, at_writer = pair.connect()
    buffers = pair.writer.register(64)
    task = at_writer.begin_receive(buffers, 0, 64)
    pair.owner.close()
    with pytest.raises(fl.Gone):
        task.result(timeout=10)
    with pytest.raises((fl.Gone, fl.Timeout)):
        at_writer.flush(timeout=5)
