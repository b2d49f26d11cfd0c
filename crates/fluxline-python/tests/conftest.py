"""Fixtures: links with names of their own, and a run that the program recorded."""

import os
import pathlib
import random
import subprocess
import uuid

import numpy as np
import pytest

import fluxline as fl

ROOT = pathlib.Path(__file__).resolve().parents[3]
SEED = os.environ.get("SEED", "1")


@pytest.fixture
def seed(request):
    """The seed of a test: 1, or SEED=n or SEED=random. A failing test shows it."""
    value = random.SystemRandom().getrandbits(32) if SEED == "random" else int(SEED)
    print(f"seed {value}: SEED={value} repeats it")
    return value


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


class Pair:
    """Two nodes of one link, and the names by which they call each other."""

    def __init__(self, kind):
        group = f"py-{uuid.uuid4().hex[:12]}"
        if kind == "shm":
            self.names = ("owner", "writer")
            urls = [f"shm://{group}/{name}" for name in self.names]
        else:
            ports = random.sample(range(20000, 30000), 2)
            self.names = tuple(f"127.0.0.1:{port}" for port in ports)
            urls = [f"udp://127.0.0.1:{port}" for port in ports]
        self.owner, self.writer = (fl.open(url) for url in urls)

    def connect(self):
        """Return the endpoints of the owner and of the writer."""
        task = self.writer.begin_connect(self.names[0])
        while not task.step():
            self.owner.wait(0.001)
        return self.owner.accept(timeout=5), task.result()

    def region(self, size, **rights):
        """Return a region of the owner, and the writer's import of it."""
        region = self.owner.register(size)
        region.export("samples", 7, **(rights or {"put": True, "get": True, "atomic": True}))
        _, endpoint = self.connect()
        return region, self.driven(endpoint.begin_import_region("samples", 7))

    def driven(self, task):
        """Return the result of the writer's task, while the owner answers."""
        while not task.step():
            self.owner.wait(0.001)
        return task.result()

    def close(self):
        self.owner.close()
        self.writer.close()


@pytest.fixture(params=["shm", "udp"])
def pair(request):
    both = Pair(request.param)
    yield both
    both.close()


@pytest.fixture
def shm():
    both = Pair("shm")
    yield both
    both.close()


@pytest.fixture(scope="session")
def program():
    """The program `fluxline` of this workspace."""
    path = ROOT / "target/debug/fluxline"
    if not path.exists():
        subprocess.run(["cargo", "build", "--locked", "-p", "fluxline-cli"], cwd=ROOT, check=True)
    return path
