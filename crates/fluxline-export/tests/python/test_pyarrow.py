"""pyarrow and numpy read a run and its exports as they are.

Usage: test_pyarrow.py FOLDER RUN
FOLDER has the run runs/0000 of tests/all/export.rs and its exports parquet/, arrow/ and npy/;
RUN is a run of several files. Exits with a traceback when a number is not what was recorded.
"""

import pathlib
import sys

import numpy
import pyarrow.ipc
import pyarrow.parquet

CASTAGNOLI = 0x82F63B78  # CRC-32C, reflected; RFC 3720, appendix B.4


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def bodies(path):
    """The bodies of the batches of a stream, by walking over its messages."""
    with pyarrow.OSFile(str(path)) as file:
        for message in pyarrow.ipc.MessageReader.open_stream(file):
            if message.type == "record batch":
                yield message.body.to_pybytes()


def check_stream(run):
    batches = sums = 0
    number = 0
    for path in sorted(pathlib.Path(run).glob("events-*.arrows")):
        body = bodies(path)
        with pyarrow.ipc.open_stream(str(path)) as reader:
            metadata = reader.schema.metadata
            assert metadata[b"fluxline.layout"] == b"2", metadata
            while True:
                try:
                    batch, custom = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                batch.validate(full=True)
                batches += 1
                assert int(custom[b"fluxline.batch"]) == number, custom
                number += 1
                sums += int(custom[b"fluxline.crc32c"], 16) == crc32c(next(body))
    assert batches == sums
    print(f"{batches} batches, {sums} check sums hold")


def check_events(run):
    with pyarrow.ipc.open_stream(str(next(pathlib.Path(run).glob("events-*.arrows")))) as reader:
        table = reader.read_all()
    assert table["key"].to_pylist() == [100, 101]
    assert table["status"].to_pylist() == ["complete"] * 2
    assert table["packets"].chunk(0).value_lengths().to_pylist() == [2, 2]
    packets = table["packets"].chunk(0).values
    assert packets.field("time")[3].value == 1_700_000_000_123_456_789
    names = [field.name for field in packets.type if field.name != "time"]
    packet = {name: packets.field(name)[3].as_py() for name in names}
    assert (packet["source"], packet["sequence"], packet["sensor_time_ns"]) == (1, 257, None)
    assert packet["data"][:3] == b"\xf1\xf0\x01" and len(packet["data"]) == 22
    assert packet["payload_start"] == 10 and packet["payload_bytes"] == 12


def check_exports(folder):
    file = folder / "parquet" / "toy-data.parquet"
    table = pyarrow.parquet.read_table(file)
    assert table["channel"].to_pylist() == [[0, 1, 2], [10, 11, 12]] * 2
    assert table["source_name"].to_pylist() == ["board=0", "board=1"] * 2
    assert table.schema.field("magic").metadata[b"allowed"] == b"61936"
    assert table.schema.metadata[b"fluxline.format"] == b"toy"
    with pyarrow.ipc.open_file(str(folder / "arrow" / "toy-data.arrow")) as reader:
        assert reader.read_all().equals(table, check_metadata=True)
    charge = numpy.load(folder / "npy" / "toy-data.charge.npy", mmap_mode="r")
    assert charge.tolist() == table["charge"].to_pylist() == [[0, -1, -2]] * 4
    packets = numpy.load(folder / "npy" / "toy-data.npy", mmap_mode="r")
    assert str(packets["time"][0]) == "2023-11-14T22:13:20.123456789"
    assert packets["gain_valid"].tolist() == [False, True] * 2
    assert packets["gain"].tolist() == [0, 700] * 2
    events = numpy.load(folder / "npy" / "events.npy")
    assert events["status"].tolist() == [b"complete"] * 2


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv[1])
    check_events(FOLDER / "runs" / "0000")
    check_exports(FOLDER)
    check_stream(FOLDER / "runs" / "0000")
    check_stream(sys.argv[2])
