//! Every counter of a run, as rows: the one place with the name, meaning and remedy of each.
//!
//! Each stage keeps a copy of the struct and raises its own fields only; the ledger merges the
//! copies. A packet ends in exactly one of the places that a law (`ledger/laws.rs`) adds up. Source
//! of the idea: Aeron's system counters and spead2's statistics page.

use serde::{Deserialize, Serialize};

fluxline_core::counters! {
    /// Counters of one input (a socket, a capture, an emulator).
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct InputCounters {
        datagrams [Sum "datagram"] "Datagrams that the link or the file handed over" => "";
        bytes [Sum "byte"] "UDP payload bytes of these datagrams" => "";
        ring_full [Sum "datagram"] "Datagrams dropped because the push ring was full"
            => "Give the readout a core of its own (`readout-core`), or more `ring-slots`.";
        truncated [Sum "datagram"] "Datagrams longer than a ring slot, dropped"
            => "Raise `datagram-bytes-max` to the size of the largest packet.";
        rejected [Sum "datagram"] "Datagrams that the packet description rejected"
            => "See the rejects below the table; `fluxline format check` shows the first in hex.";
        sources_refused [Sum "datagram"] "Datagrams of sources beyond the allowed number of sources"
            => "Raise `sources-max`, or find out who else sends to this port.";
        other_traffic [Sum "frame"] "Frames of a capture that are not for this input" => "";
        frames_unusable [Sum "frame"]
            "Frames of a capture or records of a file that are cut, damaged or lack fragments"
            => "Capture whole frames: `tcpdump -s 0`; the notes and run.json name the kinds.";
        check_sum_wrong [Sum "datagram"]
            "Datagrams of a capture whose UDP check sum is wrong; dropped"
            => "Bits were turned on the way, or the sums are wrong: `check-sums = false` or \
                `fluxline run --no-check-sums` takes them.";
        socket_dropped [Sum "datagram"]
            "Datagrams that the kernel dropped, this socket's buffer being full"
            => "Raise net.core.rmem_max and `receive-buffer-bytes`; run `fluxline doctor`.";
    }
}

fluxline_core::counters! {
    /// Counters of frames that peers write into one input's memory (RoCEv2, shared memory).
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct RemoteWriteCounters {
        frames [Sum "frame"] "Frames of static senders that came to the port" => "";
        frames_placed [Sum "frame"] "Frames whose bytes were written into a slot" => "";
        frames_duplicate [Sum "frame"] "Frames whose PSN came before, or that are too old to decide"
            => "Look for mirrored ports and loops in the network.";
        frames_wrong_check [Sum "frame"] "Frames whose invariant CRC was wrong"
            => "Bits are turned on the way, or an address is translated (NAT).";
        frames_unknown_pair [Sum "frame"] "Frames for a queue pair that no sender is given"
            => "Compare `queue-pair` with what the sender addresses.";
        frames_wrong_sender [Sum "frame"] "Frames for a sender's queue pair from another address"
            => "Compare `address` with the sender's address and port.";
        frames_out_of_bounds [Sum "frame"]
            "Frames whose R_Key is wrong, or that do not lie in one slot of the region"
            => "Compare `key`, `base`, `ring-bytes` and `slot-bytes` with the sender's.";
        frames_overrun [Sum "frame"] "Frames for a slot that the readout had not read yet; dropped"
            => "Raise `ring-bytes`: 1024 slots and more are not overrun by a sender in order.";
        frames_broken_off [Sum "frame"] "Frames of operations of which another part was lost"
            => "Let the sender write one packet per operation (WRITE ONLY).";
        frames_other [Sum "frame"] "Frames too short, of an unknown kind or of another transport"
            => "Find out who else sends to this port.";
        frames_unannounced [Sum "frame"] "Frames placed without an immediate; they are not read"
            => "Let the sender use RDMA WRITE ONLY with immediate.";
        frames_put_off [Sum "frame"]
            "Frames of reliable senders whose slot was not read yet; the sender repeats them (RNR)"
            => "Nothing is lost. Raise `ring-bytes`, or give the readout a faster core.";
        frames_to_repeat [Sum "frame"]
            "Frames of reliable senders that were damaged or out of order; the sender repeats them"
            => "Nothing is lost. Look for drops on the way, such as full switch buffers.";
        frames_socket_dropped [Sum "frame"]
            "Frames that the kernel dropped at a socket of reliable senders; they repeat them"
            => "Nothing is lost. Raise `receive-buffer-bytes` and net.core.rmem_max.";
        frames_expected [Sum "frame"] "Frames sent, by their PSN" => "";
        frames_lost [Sum "frame"]
            "Frames missing, by their PSN; with a wrong CRC or out of bounds, too"
            => "See where they were lost, below the table; pace the sender.";
        frames_late [Sum "frame"] "Frames that came after a later one; kept" => "";
        sender_restarts [Sum "restart"] "Times that a sender's PSNs started anew"
            => "Ask why the sender restarted; losses across a restart cannot be counted.";
        senders_broken [Sum "sender"]
            "Reliable senders that had to repeat a frame and did not: their retries ran out"
            => "The notes name them and the reason. Set up the sender anew.";
        records [Sum "record"] "Records handed to the readout" => "";
        records_taken [Sum "record"] "Records that the readout took" => "";
        puts_refused [Sum "put"] "Puts of producers into unread data; they end the connection"
            => "The producer has a defect, or another version.";
        producers_gone [Sum "producer"] "Producers that vanished or were disconnected"
            => "The notes name them.";
        rings_renewed [Sum "ring"]
            "Times that a producer wrote an invalid record; the ring was emptied"
            => "The producer has a defect, or another version.";
        keys_refused [Sum "key"] "Wrong keys that were shown"
            => "Somebody guesses, or a producer has an old key.";
        connections_refused [Sum "connection"]
            "Connections refused: not allowed, too many, or without the key for too long"
            => "The notes say from where; see `allow` of [source.roce].";
        rings_broken [Sum "ring"]
            "Push rings in which a producer wrote an invalid record; no more is read from them"
            => "The producer has a defect, or another version. Repair it, and start the run anew.";
    }
}

fluxline_core::counters! {
    /// Packets that the host dropped before any socket saw them, of all traffic, over the time of
    /// the run.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct HostCounters {
        nic_dropped [Sum "frame"] "Frames that network cards dropped or missed"
            => "Enlarge the card's receive ring (ethtool -G), check for pause frames.";
        softnet_dropped [Sum "frame"] "Frames dropped because the kernel's backlog was full"
            => "Raise net.core.netdev_max_backlog; spread interrupts over cores.";
        udp_buffer_errors [Sum "datagram"]
            "UDP datagrams that the host dropped for full socket buffers"
            => "Raise net.core.rmem_max and `receive-buffer-bytes`.";
    }
}

fluxline_core::counters! {
    /// Counters of the packets of one source.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct SourceCounters {
        parsed [Sum "packet"] "Packets that fit the description" => "";
        bytes_parsed [Sum "byte"] "UDP payload bytes of these packets" => "";
        in_order [Sum "packet"] "Packets with a higher number than all before" => "";
        reordered [Sum "packet"] "Packets that came after a later one; kept"
            => "Harmless in small numbers; look for parallel paths in the network.";
        unsequenced [Sum "packet"]
            "Packets without a packet counter; their loss cannot be seen" => "";
        duplicate [Sum "packet"]
            "Copies: packets whose number had come already, with the same content"
            => "Look for mirrored ports and loops in the network.";
        late [Sum "packet"]
            "Packets too old to compare with earlier ones, or stray packets with the number of \
             another packet; dropped"
            => "Look for two senders that share one source key.";
        held [Sum "packet"] "Packets that wait for the next one to say whether the source restarted"
            => "";
        expected [Sum "packet"] "Packets sent, by the packet counter" => "";
        lost [Sum "packet"] "Packets missing, by the packet counter"
            => "See where they were lost, below the table, and run `fluxline doctor`.";
        restarts [Sum "restart"] "Times that the packet counter started anew"
            => "Ask why the source restarted; losses across a restart cannot be counted.";
        board_taken [Sum "block"]
            "Blocks of data that the board took between its first and last packet that came, by its \
             own counts; a block is the data of one packet" => "";
        board_dropped [Sum "block"]
            "Blocks that the board dropped in that time, its FIFO being full, by its own counts"
            => "The link was slower than the samples, or paused: reduce them, or enlarge the FIFO.";
        board_contradictions [Sum "packet"]
            "Packets whose board's counts grew by another number than its packet counter and its \
             losses; they are counted by the packet counter alone"
            => "Compare `counts` of the description with the firmware.";
        to_builder [Sum "packet"] "Packets handed to the event builder" => "";
        builder_full [Sum "packet"] "Packets refused because the event builder was full"
            => "Raise `bytes-max` under `[events]`; look for a slow disk.";
        late_dropped [Sum "packet"] "Late packets that the experiment drops"
            => "Write `late = \"record\"` under `[events]` to keep them.";
        event_duplicate [Sum "packet"] "Packets whose part of the event had come already" => "";
        inconsistent [Sum "packet"] "Packets that contradict others of the same fragment"
            => "Check the fragment's count, total and key in the description.";
        in_complete [Sum "packet"] "Packets in complete events" => "";
        in_incomplete [Sum "packet"] "Packets in incomplete events; recorded with the reason"
            => "`fluxline inspect` shows the reasons.";
        in_late [Sum "packet"] "Packets that came after their event was closed; recorded as late"
            => "`fluxline inspect` and `export` join them to their events.";
        recorded [Sum "packet"] "Packets written to the run" => "";
        write_failed [Sum "packet"] "Packets in events that could not be written"
            => "Look for a full or broken disk; run.json has the reason.";
        not_recorded [Sum "packet"] "Packets of events that were only counted: not recording"
            => "";
        filtered [Sum "packet"] "Packets of events that the filter rejected, late ones too"
            => "`[filter]` of the experiment chose so; docs/filters.md.";
        bytes_recorded [Sum "byte"] "UDP payload bytes written to the run" => "";
    }
}

fluxline_core::counters! {
    /// Counters of the filter between builder and recorder; zeros without one.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct FilterCounters {
        events_kept [Sum "event"] "Events that the filter kept" => "";
        events_filtered [Sum "event"] "Events that the filter rejected; they are not recorded"
            => "";
        events_undecided [Sum "event"]
            "Events on which the filter failed; kept, with `filter: no decision` in `missing`"
            => "The notes have the first error. Correct the filter.";
        events_marked [Sum "event"]
            "Events for which `[filter] mark` was true; recorded, with `filter: marked` in `missing`"
            => "";
        late_filtered [Sum "fragment"] "Late fragments of rejected events; not recorded either"
            => "";
    }
}

fluxline_core::counters! {
    /// Counters of the event builder.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct BuilderCounters {
        events_complete [Sum "event"] "Events of which nothing is known to be missing" => "";
        events_incomplete [Sum "event"] "Events closed although something was missing"
            => "`fluxline inspect` shows the reasons: lost packets, silent sources.";
        events_stopped [Sum "event"] "Events that the end of the run closed" => "";
        key_restarts [Sum "restart"] "Times that event keys started anew, far below the newest"
            => "Sources restarted together; the first packets after it count as late.";
        events_open_most [Maximum "event"] "Most events open at a time" => "";
        bytes_open_most [Maximum "byte"] "Most memory that open events and their batch took" => "";
    }
}

fluxline_core::counters! {
    /// The part of a run's counters that belongs to the time in which it was armed or paused.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct PausedCounters {
        lost [Sum "packet"] "Packets missing by the packet counter, the gap seen in that time"
            => "";
        events_complete [Sum "event"] "Events of which nothing is known to be missing" => "";
        events_incomplete [Sum "event"] "Events closed although something was missing" => "";
        in_late [Sum "packet"] "Packets that came after their event was closed" => "";
    }
}

fluxline_core::counters! {
    /// Counters of the edges between readouts and builders, where a run has several nodes.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct EdgeCounters {
        handed [Sum "packet"] "Packets that readouts handed to builders" => "";
        taken [Sum "packet"] "Packets that builders took" => "";
        in_flight [Sum "packet"] "Packets on the way, while the run goes on" => "";
        lost [Sum "packet"] "Packets on the way to or from a node that had gone; in no event"
            => "The notes name the node; find out why it ended.";
        handed_on [Sum "packet"] "Packets handed to builders in other processes" => "";
        in_doubt [Sum "packet"]
            "Packets handed to a builder in another process before it had gone; its folder alone \
             says which of them it recorded"
            => "Give `fluxline gather` the folder of that builder, too: it counts them.";
        came_in [Sum "packet"] "Packets taken from readouts in other processes" => "";
        inherited [Sum "packet"]
            "Packets that a builder had recorded before it was replaced; they are in its folder"
            => "Give `fluxline gather` the folder of that builder, too.";
    }
}

fluxline_core::counters! {
    /// Counters of a feedback loop: the outcome of each closed event and of each decision.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct LoopCounters {
        decided [Sum "event"] "Events on which the function decided, with bytes to write" => "";
        declined [Sum "event"] "Events for which the function wanted nothing written" => "";
        skipped [Sum "event"] "Events that were skipped because the function was behind"
            => "Make the function faster, add builders, or raise `waiting-max` under `[loop]`.";
        undecided [Sum "event"] "Events on which the function failed, or after which it had ended"
            => "The notes have the reason; mend the function.";
        not_written [Sum "write"] "Decisions that were not written: the actuator had gone"
            => "The notes name the reason; find out why the actuator ended.";
        arrived [Sum "write"] "Writes that came to the actuator" => "";
        lost [Sum "write"] "Writes on their way to an actuator or from a builder that ended"
            => "The notes name the node; find out why it ended.";
        late [Sum "write"] "Writes that came after the deadline; they are among those that came"
            => "See the parts of the delay in run.json, and docs/loop.md.";
        unmeasured [Sum "write"] "Writes whose sampling time is missing or in the future"
            => "Synchronise the clocks of the boards, or write `sampled = \"arrival\"`.";
        handed_on [Sum "write"] "Writes to an actuator in another process" => "";
        came_in [Sum "write"] "Writes that came from builders in other processes" => "";
    }
}

fluxline_core::counters! {
    /// Counters of a sink: the places of the events that it was given.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct SinkCounters {
        offered [Sum "event"] "Events handed to the sink" => "";
        acked [Sum "event"] "Events that the broker acknowledged" => "";
        queued [Sum "event"] "Events that wait for the broker's acknowledgement" => "";
        refused [Sum "event"] "Events that the broker refused"
            => "The notes have the reason; then `fluxline ship RUN` sends them from the files.";
        too_large [Sum "event"] "Events larger than a record may be; they are in the files only"
            => "Raise `record-bytes` under `[sink.kafka]` for the next run.";
        timed_out [Sum "event"] "Events that the broker did not acknowledge in time"
            => "Look at the broker and the network; `fluxline ship RUN` sends them from the files.";
        left_out [Sum "event"] "Events left out because the sink's memory was full"
            => "Raise `memory-bytes`; `fluxline ship RUN` sends them from the files.";
        unmapped [Sum "event"] "Events without a value that the sink's schema takes"
            => "Add `[packet.ess]` to the packet description, if they should be sent.";
        misfits [Sum "value"] "Values that do not fit into the sink's schema; the files have them"
            => "The notes name them; correct the mapping under `[packet.ess]`.";
        marks_lost [Sum "message"]
            "Messages of the run's start or stop that the broker did not acknowledge"
            => "`fluxline ship RUN` sends them.";
        records_acked [Sum "record"] "Records that the broker acknowledged" => "";
        bytes_acked [Sum "byte"] "Bytes of these records" => "";
    }
}
