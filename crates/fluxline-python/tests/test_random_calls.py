"""Random calls with random arguments: each returns or raises, and the node stays usable."""

import numpy as np

import fluxline as fl

CALLS = 3000
REFUSALS = (fl.Error, OverflowError, TypeError, ValueError, BufferError)


class Script:
    """Calls drawn by a seed, on both ends of a link."""

    def __init__(self, pair, rng):
        self.pair = pair
        self.rng = rng
        self.regions, self.remotes, self.endpoints, self.rings, self.arrays = [], [], [], [], []
        self.done = 0

    def one(self, things):
        return things[self.rng.integers(len(things))] if things else None

    def number(self):
        return self.one([0, 1, 7, 8, 64, 4095, 4096, 4097, 2**32, 2**63, 2**64 - 1, -1])

    def data(self):
        size = int(self.rng.integers(0, 5000))
        array = np.zeros(size, self.one([np.uint8, np.int64, np.float32]))
        return self.one([array, array[::2], array.tobytes(), memoryview(array), "text", None])

    def node(self):
        return self.one([self.pair.owner, self.pair.writer])

    def register(self):
        size = self.one([0, 1, 8, 64, 4096, 1 << 20])
        self.regions.append(self.node().register(size))

    def export(self):
        rights = {name: bool(self.rng.integers(2)) for name in ("put", "get", "atomic")}
        name = self.one(["a", "b", "a b", "", "x" * 100])
        self.one(self.regions).export(name, self.number(), **rights)

    def withdraw(self):
        if self.rng.random() < 0.2:
            self.one(self.regions).withdraw()

    def array(self):
        dtype = self.one([np.uint8, np.int16, np.float64, "no such type", [("a", "u1", 3)]])
        array = self.one(self.regions).array(dtype, offset=self.number())
        self.arrays.append(array)

    def touch(self):
        array = self.one(self.arrays)
        if array is not None and len(array):
            array[:] = array[::-1].copy()

    def memory(self):
        region = self.one(self.regions)
        self.one([
            lambda: region.read(self.number(), self.one([0, 1, 8, 4096, 4097, 2**40])),
            lambda: region.write(self.data(), self.number()),
            lambda: region.read_into(self.data(), self.number()),
            lambda: region.fetch_add(self.number(), self.number()),
            lambda: region.compare_swap(self.number(), 0, self.number()),
            lambda: region.store(self.number(), self.number()),
        ])()

    def connect(self):
        self.endpoints.append(self.pair.connect()[1])

    def importing(self):
        task = self.one(self.endpoints).begin_import_region(self.one(["a", "b", "c"]), 7)
        self.remotes.append(self.pair.driven(task))

    def work(self):
        remote, region = self.one(self.remotes), self.one(self.regions)
        self.one([
            lambda: remote.put(self.data(), self.number(), timeout=0.01),
            lambda: remote.put(self.data(), 0, notify=self.number(), tag=self.number()),
            lambda: remote.begin_get(region, offset=self.number(), count=self.number()),
            lambda: remote.begin_fetch_add(self.number(), self.number()),
            lambda: remote.fetch_add(self.number(), timeout=0.01),
            lambda: remote.window().read(0, 8),
        ])()

    def ring(self):
        slots, size = self.one([0, 1, 16, 2**32]), self.one([0, 1, 64, 2**32])
        self.rings.append(self.pair.owner.receiver(self.one(["r", "s"]), 5, slots=slots,
                                                   slot_bytes=size, batch_bytes=100))

    def read(self):
        self.one(self.rings).read(timeout=0)

    def close(self):
        if self.rng.random() < 0.2:
            self.one([*self.rings, None]).close()

    def drop(self):
        things = self.one([self.regions, self.remotes, self.arrays, self.endpoints])
        if things:
            things.pop(int(self.rng.integers(len(things))))

    def poll(self):
        self.node().poll()

    def disconnect(self):
        if self.rng.random() < 0.1:
            self.one(self.endpoints).disconnect()

    def step(self):
        call = self.one([
            self.register, self.export, self.withdraw, self.array, self.touch, self.memory,
            self.connect, self.importing, self.work, self.ring, self.read, self.close, self.drop,
            self.poll, self.disconnect,
        ])
        try:
            call()
            self.done += 1
        except AttributeError as error:
            assert "'NoneType'" in str(error), error
        except REFUSALS as error:
            assert str(error)


def test_random_calls_return_or_raise(shm, rng):
    script = Script(shm, rng)
    for number in range(CALLS):
        script.step()
        if number % 10 == 0:
            shm.owner.poll()
            shm.writer.poll()
    assert script.done > CALLS / 10
    fresh = shm.owner.register(64)
    fresh.export(f"fresh-{number}", 1, atomic=True)
    while shm.owner.poll() or shm.writer.poll():
        pass
    endpoint = shm.connect()[1]
    remote = shm.driven(endpoint.begin_import_region(f"fresh-{number}", 1))
    assert shm.driven(remote.begin_fetch_add(0)) == 0
