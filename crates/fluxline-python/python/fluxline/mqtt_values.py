"""A bridge from MQTT to the slow control values of a run.

    python3 -m fluxline.mqtt_values 'crate/+/voltage' --broker 10.0.0.2:1883 --to 127.0.0.1:8094

subscribes to topic filters, and sends each message as lines of InfluxDB's line protocol. A payload
is a number, true or false, a text, or a JSON object of these: the names are TOPIC/value, or
TOPIC/MEMBER for each member. A broker does not know whether a publisher is alive, so values are
sent again only if --every asks for it: a run's `stale-s` alarms would not see a crate that is away.

The user and the password of the broker come from MQTT_USER and MQTT_PASSWORD of the environment, or
from the two lines of a file (--login).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from ._lines import Reading, Sender, add_options, address, library, serve, stop_signal

RETRY_S_MAX = 30
"""The first attempt to reach a broker that is away is after 1 s; waits are doubled up to this."""


def values_of(payload: bytes) -> dict[str, object]:
    """Return the values of a payload by their names; ValueError if it is not UTF-8 or JSON."""
    text = payload.decode().strip()
    found: object
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
    except ValueError:
        if not text or text.startswith("{"):
            raise ValueError("it is neither JSON nor a text") from None
        found = _number_or_text(text)
    return found if isinstance(found, dict) else {"value": found}


def _number_or_text(text: str) -> float | str:
    """Return a number that JSON does not have, such as `+1.5`, else the text."""
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def topic_filter(text: str) -> str:
    """Check a topic filter."""
    levels = text.split("/")
    wild = [one for one in levels if "+" in one or "#" in one]
    is_wrong = any(one not in ("+", "#") for one in wild) or "#" in levels[:-1]
    if not text or is_wrong or "\0" in text or len(text.encode()) > 65_535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no topic filter: `+` is a whole level, as in crate/+/voltage, and `#` "
            "the last one")
    return text


def unit_of(text: str) -> tuple[str, str]:
    """Return the topic filter and the unit of `TOPIC=UNIT`."""
    topic, _, unit = text.rpartition("=")
    if not topic or not unit:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC=UNIT, such as crate/+/voltage=V")
    return topic_filter(topic), unit


class Bridge:
    """Takes the messages of a broker."""

    def __init__(self, filters: list[str], sender: Sender, broker: str):
        self.filters, self.sender, self.broker = filters, sender, broker
        self.units: list[tuple[str, str]] = []
        self.matches: Callable[[str, str], bool] = str.__eq__
        self.is_encrypted = False
        self.messages = self.unreadable = 0

    def on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        """Subscribe, at each connection anew."""
        if reason.is_failure:
            self.sender.say(f"{self.broker} refuses the connection ({reason}); it is tried again")
        else:
            client.subscribe([(one, 0) for one in self.filters])

    def on_connect_fail(self, _client: Any, _data: Any) -> None:
        """Say that the broker is away."""
        also = ", or its certificate is not accepted" if self.is_encrypted else ""
        self.sender.say(f"{self.broker} is not reached{also}; it is tried again until it is there")

    def on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        """Forget the values, which the broker no longer vouches for."""
        self.sender.gone()
        if reason.is_failure:
            self.sender.say(f"{self.broker} is lost ({reason}); it is tried again")

    def on_subscribe(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _more: Any) -> None:
        """Name filters that the broker refuses."""
        for one, reason in zip(self.filters, reasons, strict=False):
            if reason.is_failure:
                self.sender.say(f"{self.broker} refuses {one!r} ({reason})")

    def on_message(self, _client: Any, _data: Any, message: Any) -> None:
        """Send the values of a message; count it as unreadable if it has others, too."""
        self.messages += 1
        topic = "its topic"
        try:
            topic = message.topic
            values = values_of(message.payload)
        except ValueError:
            values = {}
        sent = [self.sender.changed(Reading(topic, value, self._unit(topic, member), None, member))
                for member, value in values.items()]
        if not sent or not all(sent):
            self.unreadable += 1
            self.sender.say(f"{topic}: {message.payload[:80]!r} is not, or not only, finite "
                            "numbers, true, false or texts; such messages are counted", topic)

    def _unit(self, topic: str, member: str) -> str:
        named = (f"{topic}/{member}", topic)
        return next((unit for one, unit in self.units
                     if any(self.matches(one, name) for name in named)), "")


def login(file: str | None) -> tuple[str | None, str | None]:
    """Return the user and the password, of a file or of the environment."""
    if file is None:
        return os.environ.get("MQTT_USER"), os.environ.get("MQTT_PASSWORD")
    try:
        with open(file, encoding="utf-8") as lines:
            user, password = lines.read().splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has not two lines"
        raise SystemExit(f"{file}: {why}; write the user and the password into it") from None
    return user, password


def connected(bridge: Bridge, options: argparse.Namespace) -> Any:
    """Return a client that connects to the broker, and does so again whenever it is lost."""
    mqtt = library("paho.mqtt.client", "mqtt")
    bridge.units, bridge.matches = options.unit, mqtt.topic_matches_sub
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    user, password = login(options.login)
    if user is not None:
        client.username_pw_set(user, password)
    if options.tls is not None:
        bridge.is_encrypted = True
        try:
            client.tls_set(ca_certs=options.tls or None)
        except OSError as error:
            raise SystemExit(f"--tls {options.tls}: {error}") from None
    for name in ("connect", "connect_fail", "disconnect", "subscribe", "message"):
        setattr(client, f"on_{name}", getattr(bridge, f"on_{name}"))
    client.reconnect_delay_set(1, RETRY_S_MAX)
    client.connect_async(*options.broker)
    client.loop_start()
    return client


def main(arguments: list[str] | None = None) -> None:
    """Run the bridge until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python3 -m fluxline.mqtt_values", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="+", type=topic_filter, metavar="FILTER",
                        help="topics, with + for any level and # for all further ones")
    parser.add_argument("--broker", type=address, default=("127.0.0.1", 1883), metavar="HOST:PORT",
                        help="the broker (127.0.0.1:1883)")
    parser.add_argument("--unit", type=unit_of, action="append", default=[], metavar="TOPIC=UNIT",
                        help="unit of a topic, or of TOPIC/MEMBER; filters are allowed")
    parser.add_argument("--login", metavar="FILE", help="file with the user and the password")
    parser.add_argument("--tls", nargs="?", const="", metavar="CA.pem",
                        help="encrypt; a file with certificates instead of the system's")
    add_options(parser, 0.0, "time after which values are sent again [s] (0: never)")
    options = parser.parse_args(arguments)
    sender, stop = Sender(options.to, keeps=options.every > 0), stop_signal()
    bridge = Bridge(options.filters, sender, ":".join(map(str, options.broker)))
    client = connected(bridge, options)
    serve(sender, options.every, stop)
    client.disconnect()
    client.loop_stop()
    print(f"{bridge.messages} messages, {bridge.unreadable} not or not wholly readable; "
          f"{sender.sent} values sent", flush=True)


if __name__ == "__main__":
    main()
