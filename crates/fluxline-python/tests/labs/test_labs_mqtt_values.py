"""The bridge from MQTT to slow control values, with mosquitto on loopback."""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest
from needs import package

mqtt = package("paho.mqtt.client")

from fluxline.mqtt_values import topic_filter, unit_of, values_of  # noqa: E402

PATIENCE_S = 60.0
COMMAND = [sys.executable, "-m", "fluxline.mqtt_values"]


class Broker:
    """Mosquitto in a process of its own; one user, who may read all but `secret`."""

    def __init__(self, folder):
        path = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
        if path is None:
            assert os.environ.get("FLUXLINE_REQUIRE_TOOLS") != "1", "apt-get install mosquitto"
            pytest.skip("mosquitto is missing")
        self.path, self.folder = path, folder
        self.port = random.randrange(20_000, 30_000)
        (folder / "login").write_text("shift\nsecret word\n")
        (folder / "users").write_text("shift:secret word\n")
        subprocess.run(["mosquitto_passwd", "-U", folder / "users"], check=True)
        config = [f"listener {self.port} 127.0.0.1", "allow_anonymous false",
                  f"password_file {folder}/users", "user root"]  # to read that file as root
        (folder / "conf").write_text("\n".join(config) + "\n")
        self.process = None

    def start(self):
        self.process = subprocess.Popen([self.path, "-c", self.folder / "conf"],
                                        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.username_pw_set("shift", "secret word")
        self.client.reconnect_delay_set(1, 1)
        ready = threading.Event()
        self.client.on_connect = lambda *_: ready.set()
        self.client.connect_async("127.0.0.1", self.port)
        self.client.loop_start()
        assert ready.wait(PATIENCE_S)

    def publish(self, topic, payload, retain=True):
        sent = self.client.publish(topic, payload, qos=1, retain=retain)
        sent.wait_for_publish(PATIENCE_S)
        assert sent.is_published()

    def stop(self):
        if self.process is not None:
            self.client.loop_stop()
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    broker.stop()


@pytest.fixture
def bridge(broker):
    """Starts the bridge in a process, with the run's socket as `run`."""
    run = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    run.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    run.bind(("127.0.0.1", 0))
    run.settimeout(PATIENCE_S)
    started = []

    def start(*arguments, login=True):
        given = ["--login", str(broker.folder / "login")] if login else []
        process = subprocess.Popen(
            [*COMMAND, *arguments, *given, "--broker", f"127.0.0.1:{broker.port}",
             "--to", f"127.0.0.1:{run.getsockname()[1]}"], stdout=subprocess.PIPE, text=True)
        process.run = run
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    run.close()


def lines(bridge, count):
    return [bridge.run.recv(65535).decode() for _ in range(count)]


def ended(bridge):
    """Returns what a bridge says after SIGTERM."""
    bridge.send_signal(signal.SIGTERM)
    said, _ = bridge.communicate(timeout=PATIENCE_S)
    assert bridge.returncode == 0
    return said


def test_numbers_texts_truths_and_objects_are_values_with_units(broker, bridge):
    broker.start()
    broker.publish("crate/1/voltage", "1500.5")
    broker.publish("crate/2/voltage", " +2 ")
    broker.publish("crate/1/on", "true")
    broker.publish("crate/1/state", 'ramping "up"')
    broker.publish("crate/1/all", '{"temp c": 20.5, "fan": false, "mode": "auto"}')
    broker.publish("other/voltage", "1")
    one = bridge("crate/#", "--unit", "crate/+/voltage=V", "--unit", "crate/1/all/temp c=K")
    assert sorted(lines(one, 7)) == [
        'crate/1/all fan=0.0\n', 'crate/1/all mode="auto"\n',
        'crate/1/all,unit=K temp\\ c=20.5\n', 'crate/1/on value=1.0\n',
        'crate/1/state value="ramping \\"up\\""\n', 'crate/1/voltage,unit=V value=1500.5\n',
        'crate/2/voltage,unit=V value=2.0\n']
    assert ended(one) == "5 messages, 0 not or not wholly readable; 7 values sent\n"


def test_unreadable_payloads_are_counted_and_named_once(broker, bridge):
    broker.start()
    one = bridge("a/#")
    broker.publish("a/first", "1")
    lines(one, 1)
    for payload in (b"\xff", "", "nan", "[1]", "null", "{1}", '{"x": null}', "1e999",
                    "[" * 9999 + "]" * 9999, '{"": 1}', "9" * 9999):
        broker.publish("a/bad", payload, retain=False)
    broker.publish("a/some", '{"x": [1], "y": 2}')
    assert lines(one, 1) == ["a/some y=2.0\n"]
    said = ended(one).splitlines()
    assert [text.split(":")[0] for text in said[:-1]] == ["a/bad", "a/some"]
    assert said[-1] == "13 messages, 12 not or not wholly readable; 2 values sent"


def test_a_flood_is_passed_on(broker, bridge):
    broker.start()
    broker.publish("flood", "-1")
    one = bridge("flood")
    lines(one, 1)
    for first in range(0, 5_000, 100):
        for number in range(first, first + 100):
            broker.client.publish("flood", str(number), qos=1)
        assert lines(one, 100)[-1] == f"flood value={first + 99}.0\n"
    assert ended(one).startswith("5001 messages, 0 not")


def test_a_broker_that_comes_late_and_one_that_is_restarted_are_found(broker, bridge):
    one = bridge("a/#", "--every", "0.1")
    assert "is not reached; it is tried again" in one.stdout.readline()
    broker.start()
    broker.publish("a/b", "1.5")
    assert lines(one, 3) == ["a/b value=1.5\n"] * 3
    broker.stop()
    assert "is lost" in one.stdout.readline()
    one.run.setblocking(False)
    with pytest.raises(BlockingIOError):  # the rest from before
        lines(one, 10_000)
    one.run.settimeout(1.0)
    with pytest.raises(TimeoutError):
        lines(one, 1)
    one.run.settimeout(PATIENCE_S)
    broker.start()
    broker.publish("a/b", "2.5")
    assert lines(one, 1) == ["a/b value=2.5\n"]


def test_a_wrong_password_is_said_and_tried_again(broker, bridge):
    broker.start()
    one = bridge("a", login=False)
    assert "refuses the connection (Not authorized); it is tried again" in one.stdout.readline()


def test_wrong_arguments_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "login").write_text("only a user")
    for arguments, says in [(["a/b+"], "is no topic filter"), (["a", "--broker", "host"],
                            "'host' is not HOST:PORT"), (["a", "--unit", "V"], "is not TOPIC=UNIT"),
                            (["a", "--every", "-1"], "write 0.1 to 86400"),
                            (["a", "--login", tmp_path / "login"], "write the user and the pass"),
                            (["a", "--login", tmp_path / "none"], "No such file"),
                            (["a", "--tls", tmp_path / "none"], "--tls ")]:
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        assert done.returncode != 0 and says in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    for wrong in ("", "#/a", "a/#/b", "a#", "+a", "a\0"):
        with pytest.raises(argparse.ArgumentTypeError):
            topic_filter(wrong)
    assert unit_of("a/+/b=m/s") == ("a/+/b", "m/s") and topic_filter("+/#") == "+/#"
    assert values_of(b"1_000") == {"value": "1_000"} and values_of(b'"on"') == {"value": "on"}


def test_a_missing_library_names_the_extra():
    program = ("import sys; sys.modules['paho.mqtt.client'] = None\n"
               "from fluxline.mqtt_values import main; main(['a'])")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr == "paho is missing; install it by: pip install 'fluxline[mqtt]'\n"
