"""The core against scapy and the emulator: data frames, ARP, ping, registers, bad frames."""
import logging
import random
import re

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource
from scapy.all import ARP, ICMP, IP, UDP, Ether, PcapReader, raw

from layout import FIELDS, FIFO, HEADER, PAYLOAD, REGISTERS, ROCE, SLOT

if ROCE:
    from scapy.contrib.roce import BTH

BOARD, HOST = "02:f1:0a:0b:0c:01", "02:f1:0a:0b:0c:fe"
WORDS = PAYLOAD // 8
# RoCEv2: base header, address, immediate before the packet; padding and ICRC behind it.
LINK = 32 if ROCE else 0
TRAILER = -(HEADER + PAYLOAD) % 4 + 4 if ROCE else 0
RING = dict(DEST_QP=0xABCDEF, RKEY=0x12345678, RING_BASE_HIGH=0x11, RING_BASE_LOW=0xFFFFF000,
            FIRST_PSN=0xFFFFFD, RING_BYTES=4 * SLOT - 1)


class Bench:
    """The core with a clock, a receiver of its frames and a sender of frames to it."""

    async def start(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        dut.s_valid.value = 0
        self.tx = AxiStreamSink(AxiStreamBus.from_prefix(dut, "tx"), dut.clk, dut.rst)
        self.rx = AxiStreamSource(AxiStreamBus.from_prefix(dut, "rx"), dut.clk, dut.rst)
        for end in (self.tx, self.rx):
            end.log.setLevel(logging.WARNING)
        cocotb.start_soon(self.watch())
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        self.tag = 0
        for name in RING if ROCE else ():
            await self.write(name, RING[name])
        return self

    async def watch(self):
        """Checks that what the core offers stays until it is taken; notes pauses between frames."""
        dut, offered, ended, self.pauses = self.dut, None, None, []
        now = 0
        while True:
            await RisingEdge(dut.clk)
            now += 1
            if dut.rst.value != 0:
                continue
            beat = None
            if dut.tx_tvalid.value == 1:
                beat = (int(dut.tx_tdata.value), int(dut.tx_tkeep.value), int(dut.tx_tlast.value))
                if ended is not None:
                    self.pauses.append(now - ended)
                    ended = None
            assert offered in (None, beat), "a beat changed before it was taken"
            taken = dut.tx_tready.value == 1
            offered = None if taken else beat
            if beat and taken and beat[2]:
                ended = now

    async def frame(self):
        return bytes((await with_timeout(self.tx.recv(), 2, "ms")).tdata)

    async def ask(self, packet, bad_fcs=False):
        """Sends a frame and returns the answer; None: there was none."""
        data = packet if isinstance(packet, bytes) else raw(packet)
        beats = (len(data) + 7) // 8
        user = [0] * (8 * beats - 8) + [int(bad_fcs)] * (len(data) - 8 * beats + 8)
        await self.rx.send(AxiStreamFrame(data, tuser=user))
        for _ in range(2 * beats + 200):
            await RisingEdge(self.dut.clk)
            if not self.tx.empty():
                return Ether(await self.frame())
        return None

    async def access(self, operation, address, value=0, change=None):
        self.tag = (self.tag + 1) % 256
        body = (b"FLXR" + bytes([operation, self.tag, 0, 0]) + address.to_bytes(4, "big")
                + value.to_bytes(4, "big"))
        packet = Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / UDP(
            sport=40000, dport=6007) / body
        data = bytearray(raw(packet))
        if change:
            change(data)
        reply = await self.ask(Ether(bytes(data)))
        if reply is None:
            return None
        assert raw(reply[UDP].payload)[:4] == b"FLXR" and reply[UDP].dport == 40000
        assert sound(reply) and raw(reply[UDP].payload)[5] == self.tag
        answer = raw(reply[UDP].payload)[:16]
        return answer[4], int.from_bytes(answer[12:16], "big")

    async def read(self, name):
        operation, value = await self.access(0, REGISTERS[name])
        assert operation == 0x80, f"{name}: {operation:#x}"
        return value

    async def write(self, name, value):
        operation, echoed = await self.access(1, REGISTERS[name], value)
        assert (operation, echoed) == (0x81, value), name

    async def block(self, words, key=0, ticks=0, pause=0.0):
        """Offers a block; key and time are right with its first word only."""
        for word in words:
            self.dut.s_valid.value = 1
            self.dut.s_data.value = word
            self.dut.s_key.value = key
            self.dut.s_ticks.value = ticks
            await RisingEdge(self.dut.clk)
            key, ticks = random.getrandbits(64), random.getrandbits(64)
            self.dut.s_valid.value = 0
            while random.random() < pause:
                await RisingEdge(self.dut.clk)

    async def ledger(self):
        await self.write("SNAPSHOT", 0)
        names = ("TAKEN", "DROPPED", "SENT")
        low = [await self.read(f"{name}_LOW") for name in names]
        high = [await self.read(f"{name}_HIGH") for name in names]
        return [a | b << 32 for a, b in zip(low, high)] + [await self.read("WAITING")]


def sound(packet):
    """Returns true when scapy makes the same check sums and lengths."""
    again = Ether(raw(packet))
    udp_sum = again[UDP].chksum if UDP in again else None
    if ROCE and BTH in again:
        again[BTH].icrc = None
    for layer in (IP, ICMP, UDP):
        if layer in again:
            del again[layer].chksum
    if udp_sum == 0:
        again[UDP].chksum = 0
    return raw(again) == raw(packet)


def packet_of(frame):
    """Returns the packet of the description in a frame."""
    return raw(Ether(frame)[UDP].payload)[LINK:LINK + HEADER + PAYLOAD]


class Word(int):
    """A number of 64 bits, with the operators of the generated SystemVerilog."""

    def __new__(cls, value):
        return super().__new__(cls, int(value) & (1 << 64) - 1)


for name in ("add", "sub", "mul", "and", "or", "xor", "lshift", "rshift"):
    def operate(left, right, of=getattr(int, f"__{name}__"), shifts="shift" in name):
        return Word(0 if shifts and right > 63 else of(left, right))
    setattr(Word, f"__{name}__", operate)


def pieces(signal):
    """Splits `{a, b}` at its commas; anything else is one piece."""
    if not signal.startswith("{"):
        return [signal]
    depth, start, found = 0, 1, []
    for at, letter in enumerate(signal):
        depth += letter in "{(["
        depth -= letter in "})]"
        if (letter == "," and depth == 1) or depth == 0:
            found.append(signal[start:at].strip())
            start = at + 1
    return found


def value_of(signal, core):
    """Returns value and width of a generated signal."""
    if signal.startswith("{"):
        value = width = 0
        for piece in pieces(signal):
            part, bits = value_of(piece, core)
            value, width = value << bits | part, width + bits
        return value, width
    if found := re.fullmatch(r"(\d+)'h([0-9a-f]+)", signal):
        return int(found[2], 16), int(found[1])
    if found := re.fullmatch(r"(\w+)\[(\d+):(\d+)\]", signal):
        high, low = int(found[2]), int(found[3])
        return core[found[1]] >> low & ((1 << high - low + 1) - 1), high - low + 1
    found = re.fullmatch(r"(\d+)'\((.*)\)", signal)
    text = found[2].replace("{63'd0, ", "Word(").replace("}", ")")
    text = re.sub(r"64'd(\d+)", r"Word(\1)", text).replace("&&", "and").replace("||", "or")
    names = {name: Word(value) for name, value in core.items()}
    value = eval(text, {"__builtins__": {}, "Word": Word}, names)
    return value & ((1 << int(found[1])) - 1), int(found[1])


def header_of(core):
    """Returns the header that the description gives for the core's values."""
    out = b""
    for _, _, size, order, signal in FIELDS:
        out += value_of(signal, core)[0].to_bytes(size, order)
    return out


def field_of(header, wanted):
    """Returns the value of a signal of the core as a packet has it; 0 where none has."""
    value = 0
    for _, at, size, order, signal in FIELDS:
        word = int.from_bytes(header[at:at + size], order)
        for piece in reversed(pieces(signal)):
            bits = value_of(piece, dict.fromkeys(CORE, 0))[1]
            if found := re.fullmatch(wanted + r"\[\d+:(\d+)\]", piece):
                value |= (word & ((1 << bits) - 1)) << int(found[1])
            word >>= bits
    return value


def comparable(packet):
    """Returns the packet without fields made of more key, time or source than it has."""
    out = bytearray(packet)
    for _, at, size, _, signal in FIELDS:
        if re.search(r"'\(.*\b(key|ticks|source)\b", signal):
            out[at:at + size] = bytes(size)
    return bytes(out)


CORE = ("source", "sequence_", "key", "ticks", "taken", "dropped")


@cocotb.test()
async def emulated_packets_are_sent_byte_for_byte(dut):
    """Compares the packets of `fluxline emulate` with those of the RTL."""
    bench = await Bench().start(dut)
    packets = [raw(packet[UDP].payload) for packet in PcapReader("emulated.pcap")]
    assert len(packets) >= 16
    await bench.write("SOURCE", field_of(packets[0], "source") & 0xFFFFFFFF)
    for number, packet in enumerate(packets):
        assert len(packet) == HEADER + PAYLOAD
        words = [int.from_bytes(packet[at:at + 8], "little")
                 for at in range(HEADER, len(packet), 8)]
        await bench.block(words, field_of(packet, "key"), field_of(packet, "ticks"),
                          pause=random.choice([0, 0.3]))
        frame = await bench.frame()
        sent = packet_of(frame)
        assert comparable(sent) == comparable(packet), (
            f"packet {number}: {sent[:HEADER].hex()}, {packet[:HEADER].hex()}")
        whole = Ether(frame)
        assert sound(whole) and len(frame) == 42 + LINK + HEADER + PAYLOAD + TRAILER
        assert (whole.dst, whole.src) == ("ff:ff:ff:ff:ff:ff", BOARD)
        assert (whole[IP].src, whole[IP].dst) == ("10.23.0.2", "10.23.0.1")
        assert (whole[UDP].sport, whole[UDP].dport) == (6006, 4791 if ROCE else 6006)


@cocotb.test()
async def a_slow_link_drops_whole_blocks_and_the_ledger_closes(dut):
    bench = await Bench().start(dut)
    await bench.write("SOURCE", 5)
    stalled = True

    def pauses():
        while True:
            yield stalled or random.random() < 0.3

    bench.tx.set_pause_generator(pauses())
    blocks = 6 * (FIFO // PAYLOAD) if FIFO // PAYLOAD < 64 else 2 * (FIFO // PAYLOAD)
    offered = [[random.getrandbits(64) for _ in range(WORDS)] for _ in range(blocks)]

    async def samples():
        for number, words in enumerate(offered):
            await bench.block(words, number, 1000 + number)

    task = cocotb.start_soon(samples())
    await ClockCycles(dut.clk, 2 * FIFO // 8)
    stalled = False
    await task
    while int(dut.blocks_waiting.value) or not bench.tx.idle():
        await ClockCycles(dut.clk, 50)
    # The last beat of a frame is taken before its counter is raised.
    await ClockCycles(dut.clk, 20)
    bench.tx.clear_pause_generator()
    bench.tx.pause = False
    frames = []
    while not bench.tx.empty():
        frames.append(await bench.frame())
    taken, dropped, sent, waiting = await bench.ledger()
    assert (taken, waiting) == (blocks, 0) and sent == len(frames) and taken == dropped + sent
    assert dropped > 0
    at = 0
    for number, frame in enumerate(frames):
        user = packet_of(frame)
        payload = b"".join(word.to_bytes(8, "little") for word in offered[at])
        while user[HEADER:] != payload:    # dropped
            at += 1
            payload = b"".join(word.to_bytes(8, "little") for word in offered[at])
        core = dict(source=5, sequence_=number, key=at, ticks=1000 + at, taken=at,
                    dropped=at - number)
        assert user[:HEADER] == header_of(core), f"packet {number}, block {at}"
        assert sound(Ether(frame))
        # While nothing went out, the FIFO took as many blocks as it holds.
        assert number >= FIFO // PAYLOAD or at == number, f"packet {number} is block {at}"
        at += 1


@cocotb.test()
async def requests_are_answered_and_others_are_not(dut):
    bench = await Bench().start(dut)
    request = Ether(src=HOST, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=HOST, psrc="10.23.0.1",
                                                            pdst="10.23.0.2")
    reply = await bench.ask(request)
    assert reply[ARP].op == 2 and reply[ARP].hwsrc == BOARD and reply[ARP].psrc == "10.23.0.2"
    assert reply.dst == HOST and reply[ARP].hwdst == HOST and reply[ARP].pdst == "10.23.0.1"
    for address in ("10.23.0.3", "10.24.0.2"):
        for padding in (b"", bytes(18)):
            other = request.copy()
            other[ARP].pdst = address
            assert await bench.ask(other / padding) is None
    lengths = [*range(0, 80), 500, 1472, 2006]
    for length in lengths:
        body = random.randbytes(length)
        ping = Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2", ttl=9) / ICMP(
            id=5, seq=length) / body
        reply = await bench.ask(ping)
        assert reply is not None, f"ping of {length} bytes"
        assert reply[ICMP].type == 0 and raw(reply[ICMP].payload) == body and sound(reply)
    # The new check sum is made of the old one, with its carry.
    carrying = Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / ICMP(seq=0)
    while Ether(raw(carrying))[ICMP].chksum < 0xF800:
        carrying[ICMP].seq = (carrying[ICMP].seq + 0x0400) & 0xFFFF
    reply = await bench.ask(carrying)
    assert reply is not None and sound(reply)
    # One request at a time is answered, the others are counted.
    for _ in range(2):
        await bench.rx.send(AxiStreamFrame(raw(carrying), tuser=0))
    assert await bench.frame()
    await ClockCycles(dut.clk, 100)
    assert bench.tx.empty() and await bench.read("REQUESTS_MISSED") == 1
    wrong = [
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / ICMP(chksum=1) / b"x",
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2", chksum=1) / ICMP() / b"x",
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2", len=200) / ICMP() / b"x",
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / ICMP() / bytes(2100),
    ]
    for packet in wrong:
        assert await bench.ask(packet) is None, packet.summary()
    assert await bench.ask(ping, bad_fcs=True) is None
    assert await bench.read("FRAMES_WRONG") == len(wrong) + 1
    for packet in [
        Ether(src=HOST, dst="02:00:00:00:00:09") / IP(src="10.23.0.1", dst="10.23.0.2") / ICMP(),
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.9") / ICMP(),
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2", frag=2) / ICMP(),
        Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / UDP(dport=9) / b"FLXR",
        Ether(src=HOST, dst=BOARD, type=0x1234) / b"short",
    ]:
        assert await bench.ask(packet) is None, packet.summary()
    for length in (1, 7, 8, 9, 14, 33, 41, 42):
        assert await bench.ask(raw(ping)[:length]) is None, length
    assert await bench.read("ARP_REPLIES") == 1
    assert await bench.read("ECHO_REPLIES") == len(lengths) + 2


@cocotb.test()
async def registers_are_read_and_written_and_nothing_beyond_them(dut):
    bench = await Bench().start(dut)
    assert await bench.read("IDENTITY") == 0x464C5801
    assert await bench.read("OWN_IP") == 0x0A170002
    for name in ("GAP", "PEER_MAC_LOW", "PEER_IP", "PORTS", "SOURCE"):
        value = random.getrandbits(16)
        await bench.write(name, value)
        assert await bench.read(name) == value
    for operation, address in ((0, 0x34), (0, 0x1000), (0, 0x3), (1, 0x0), (1, 0x40), (1, 0xFFC)):
        assert await bench.access(operation, address) == (0xC0 | operation, 0), hex(address)
    assert ROCE or await bench.access(0, REGISTERS["RING_BYTES"]) == (0xC0, 0)
    before = await bench.read("FRAMES_WRONG")

    def flip(at):
        def change(data):
            data[at] ^= 1
        return change

    # A byte of the value, of the address, of the UDP check sum, of the IP header.
    for at in (57, 53, 41, 22):
        assert await bench.access(1, REGISTERS["SOURCE"], 1, flip(at)) is None
    assert await bench.read("FRAMES_WRONG") == before + 4
    assert await bench.access(2, 0) is None
    # Samples are not taken while the board is off.
    await bench.write("CONTROL", 0)
    await bench.block([0] * WORDS)
    assert await bench.ledger() == [0, 0, 0, 0]
    # A block that was begun before goes on to its end.
    if WORDS > 1:
        await bench.write("CONTROL", 1)
        await bench.block([2] * (WORDS - 1))
        await bench.write("CONTROL", 0)
        await bench.block([3] * (WORDS + 1))
        assert packet_of(await bench.frame())[-16:] == bytes([2, *[0] * 7, 3, *[0] * 7])
        await ClockCycles(dut.clk, 4 * WORDS + 100)
        assert bench.tx.empty()
    # An address changes between frames, never within one.
    await bench.write("CONTROL", 1)
    await bench.write("OWN_IP", 0x0A170002)
    for peer in (1, 2, 3):
        await bench.write("PEER_IP", 0x0A170000 + peer)
        await bench.block([1] * WORDS)
        frame = Ether(await bench.frame())
        assert frame[IP].dst == f"10.23.0.{peer}" and sound(frame)


@cocotb.test()
async def replies_and_settings_go_between_frames_and_harm_none(dut):
    bench = await Bench().start(dut)
    await bench.write("GAP", 3)
    bench.tx.set_pause_generator(iter(lambda: random.random() < 0.1, None))
    blocks, going = max(60, 3000 // WORDS), True

    async def samples():
        for number in range(blocks):
            await bench.block([number] * WORDS, number, pause=0.2)
        nonlocal going
        going = False

    task = cocotb.start_soon(samples())
    received, replies, asked = [], [], 0
    tag = 0
    while going or not task.done() or not bench.rx.idle():
        # Settings, snapshots and pings while frames go out.
        for name, value in (("PEER_IP", 0xFFF0FE00 + asked % 250), ("SNAPSHOT", 0)):
            tag = (tag + 1) % 256
            body = b"FLXR" + bytes([1, tag, 0, 0]) + REGISTERS[name].to_bytes(4, "big")
            await bench.rx.send(AxiStreamFrame(raw(
                Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2")
                / UDP(sport=40000, dport=6007) / (body + value.to_bytes(4, "big"))), tuser=0))
            await ClockCycles(dut.clk, random.randrange(20, 120))
        asked += 1
    await task
    await ClockCycles(dut.clk, 40 * WORDS + 2000)
    while not bench.tx.empty():
        frame = Ether(await bench.frame())
        assert sound(frame), frame.show(dump=True)
        (replies if frame[UDP].sport == 6007 else received).append(frame)
    assert len(replies) > 3 and all(reply[UDP].dport == 40000 for reply in replies)
    peers = {frame[IP].dst for frame in received}
    assert len(peers) > 2, peers
    taken, dropped, sent, waiting = await bench.ledger()
    assert (taken, waiting) == (blocks, 0) and sent == len(received) == taken - dropped


@cocotb.test()
async def a_frame_that_was_offered_waits_for_the_link_before_any_other(dut):
    bench = await Bench().start(dut)
    bench.tx.pause = True
    await bench.block([1] * WORDS)
    for _ in range(HEADER + 200):
        await RisingEdge(dut.clk)
        if dut.tx_tvalid.value == 1:
            break
    ping = Ether(src=HOST, dst=BOARD) / IP(src="10.23.0.1", dst="10.23.0.2") / ICMP() / b"x"
    await bench.rx.send(AxiStreamFrame(raw(ping), tuser=0))
    # The reply is ready long before the link is.
    await ClockCycles(dut.clk, 200)
    bench.tx.pause = False
    first, second = Ether(await bench.frame()), Ether(await bench.frame())
    assert UDP in first and sound(first) and ICMP in second and sound(second)


@cocotb.test()
async def a_snapshot_in_the_middle_closes_and_frames_keep_their_gap(dut):
    bench = await Bench().start(dut)
    await bench.write("GAP", 50)
    bench.pauses.clear()
    for _ in range(12):
        while int(dut.blocks_waiting.value) >= FIFO // PAYLOAD:
            await RisingEdge(dut.clk)
        await bench.block([1] * WORDS)
    while int(dut.blocks_waiting.value):
        await ClockCycles(dut.clk, 10)
    await ClockCycles(dut.clk, 20)
    assert min(bench.pauses[1:]) >= 50 and len(bench.pauses) > 2, bench.pauses
    while not bench.tx.empty():
        await bench.frame()
    await bench.write("SNAPSHOT", 0)
    before = [await bench.read(f"{name}_LOW") for name in ("TAKEN", "DROPPED", "SENT")]
    # What comes later is not in the snapshot.
    await bench.block([1] * WORDS)
    await bench.frame()
    after = [await bench.read(f"{name}_LOW") for name in ("TAKEN", "DROPPED", "SENT")]
    assert before == after and before[0] == before[1] + before[2]


@cocotb.test(skip=ROCE)
async def a_check_sum_of_zero_is_sent_as_ones(dut):
    bench = await Bench().start(dut)
    await bench.block([0] * WORDS)
    first = Ether(await bench.frame())
    # The last sample makes the sum of the next packet what is sent as 0 by no sender.
    core = dict(source=7, sequence_=1, key=0, ticks=0, taken=1, dropped=0)
    body = bytearray(header_of(core) + bytes(PAYLOAD))
    probe = IP(src=first[IP].src, dst=first[IP].dst) / UDP(
        sport=first[UDP].sport, dport=first[UDP].dport) / bytes(body)
    left = IP(raw(probe))[UDP].chksum
    at = len(body) - 2 - len(body) % 2
    body[at:at + 2] = left.to_bytes(2, "big")
    words = [int.from_bytes(body[place:place + 8], "little")
             for place in range(HEADER, len(body), 8)]
    await bench.block(words)
    frame = Ether(await bench.frame())
    assert packet_of(raw(frame)) == bytes(body) and frame[UDP].chksum == 0xFFFF


@cocotb.test(skip=not ROCE)
async def frames_write_slot_after_slot_and_numbers_and_ring_wrap(dut):
    bench = await Bench().start(dut)

    async def sends(psn, slot, number):
        await bench.block([number] * WORDS)
        frame = Ether(await bench.frame())
        assert sound(frame) and frame[UDP].dport == 4791 and frame[UDP].chksum == 0
        base = frame[BTH]
        assert (base.opcode, base.dqpn, base.psn) == (0x2B, RING["DEST_QP"], psn)
        assert base.padcount == TRAILER - 4 and base.pkey == 0xFFFF and not base.ackreq
        rdma = raw(frame[UDP].payload)[12:32]
        address = (RING["RING_BASE_HIGH"] << 32 | RING["RING_BASE_LOW"]) + slot * SLOT
        assert rdma == b"".join((address.to_bytes(8, "big"), RING["RKEY"].to_bytes(4, "big"),
                                 (HEADER + PAYLOAD).to_bytes(4, "big"), number.to_bytes(4, "big")))

    # The ring has room for three slots, and a rest.
    for number in range(8):
        await sends((RING["FIRST_PSN"] + number) & 0xFFFFFF, number % 3, number)
    # A new session begins at the first slot, the numbers of packets go on.
    await bench.write("FIRST_PSN", 7)
    await sends(7, 0, 8)
    await sends(8, 1, 9)
    await bench.write("RING_BYTES", 2 * SLOT)
    for number in range(3):
        await sends(7 + number, number % 2, 10 + number)
    # A ring without room for a packet: nothing is taken, nothing is written.
    await bench.write("RING_BYTES", SLOT - 1)
    before = await bench.ledger()
    await bench.block([0] * WORDS)
    await ClockCycles(dut.clk, 4 * WORDS + 100)
    assert bench.tx.empty() and await bench.ledger() == before
    await bench.write("RING_BYTES", SLOT)
    await sends(7, 0, 13)
    await sends(8, 0, 14)
