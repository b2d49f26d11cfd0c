"""A run of another process, seen and controlled from here: a real one, silent ones, false ones."""

import http.server
import pathlib
import socket
import subprocess
import threading
import time

import pytest

import fluxline as fl

EXPERIMENT = """
[[source]]
name = "boards"
format = "counter"
[source.udp]
listen = ["127.0.0.1:0"]
[[alarm]]
name = "too few"
value = "events"
below = 1e18
"""
PATIENCE_S = 120


@pytest.fixture
def served(program, tmp_path):
    """Return the folder of an armed run with a page, and its process."""
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    command = [program, "run", "experiment.toml", "--serve", "127.0.0.1:0", "--armed",
               "--folder", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        folder = tmp_path / "run"
        try:
            wait(lambda: (folder / "serve.url").exists() and (folder / "serve.url").read_text())
            yield folder, process
        finally:
            process.kill()


def wait(until):
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, "nothing comes"
        time.sleep(0.02)


def test_a_run_of_another_process_is_started_watched_and_stopped(served):
    folder, process = served
    url = (folder / "serve.url").read_text().strip()
    address, token = url.split("#")
    run = fl.connect(folder)
    assert run.status()["state"] == "armed"
    assert fl.connect(address, token).start() == "running"
    assert run.note("beam is back") == "running"
    assert run.shot(4711) == "running"
    status = fl.connect(url).status()
    assert status["shot"] == 4711
    assert [note["text"] for note in status["remarks"]] == ["beam is back"]
    assert run.pause() == "paused" and run.resume() == "running"
    assert run.stats()["events"] == 0 and "packets" in run.stats()["rates"]
    wait(lambda: run.health()["alarms"])
    alarm = run.health()["alarms"][0]["name"]
    assert run.acknowledge(alarm) == "running"
    assert run.shelve(alarm, 5) == "running" and run.unshelve(alarm) == "running"
    with pytest.raises(fl.Error, match="no-such"):
        run.acknowledge("no-such-alarm")
    assert run.stop() in ("stopping", "stopped")
    process.wait(PATIENCE_S)
    with pytest.raises(fl.LinkError, match="no answer from"):
        run.status()
    with pytest.raises(fl.InputError, match="has ended"):
        fl.connect(folder)


def test_without_the_token_everybody_looks_and_nobody_commands(served):
    folder, _ = served
    address = (folder / "serve.url").read_text().split("#")[0].removeprefix("http://")
    for token in (None, "0" * 32):
        run = fl.connect(address, token)
        assert run.status()["state"] == "armed"
        with pytest.raises(fl.Error, match="token"):
            run.start()
    with pytest.raises(fl.Error, match="does not allow|not allow|armed"):
        fl.connect(folder).resume()


@pytest.mark.parametrize("address", ["", "https://127.0.0.1", "http://a/b", "a b", "http://u@h",
                                     "file:///etc/passwd", "127.0.0.1:1\r\nX: y"])
def test_a_wrong_address_is_a_sentence(address):
    with pytest.raises(fl.InputError, match="is not the address of a run"):
        fl.connect(address)


def test_a_token_that_is_none_is_not_sent():
    with pytest.raises(fl.InputError, match="token"):
        fl.connect("127.0.0.1:1", "a\r\nX: y")


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A server that is not fluxline, and sends requests on to another address."""

    seen: list[str] = []

    def do_POST(self):  # noqa: N802 (the name that http.server wants)
        self.seen.append(f"{self.path} {self.headers['Authorization']}")
        self.send_response(307)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self):  # noqa: N802
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[1, 2]" if self.path == "/api/state" else b"no")

    def log_message(self, *_):
        """Keep the test's output short."""


def test_a_server_that_is_not_a_run_gets_no_second_request():
    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run = fl.connect(f"127.0.0.1:{server.server_port}", "abc")
        with pytest.raises(fl.LinkError, match="not from a run"):
            run.status()
        with pytest.raises(fl.LinkError, match="not from a run"):
            run.stop()
        assert Elsewhere.seen == ["/api/command Bearer abc"]
        server.shutdown()


def test_a_port_where_nobody_listens_is_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(fl.LinkError, match="no answer from"):
            fl.connect(f"127.0.0.1:{taken.getsockname()[1]}").status()


def test_a_folder_without_a_page_is_a_sentence(tmp_path):
    with pytest.raises(fl.InputError, match=r"serve.url cannot be read"):
        fl.connect(pathlib.Path(tmp_path))
