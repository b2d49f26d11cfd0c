//! The counters of a connection and of a node.

crate::counters! {
    /// Counters of one connection.
    pub struct ConnectionCounters {
        frames_sent [Sum "frame"] "Request frames sent, repeated ones too" => "";
        payload_sent [Sum "byte"] "Payload in them" => "";
        frames_repeated [Sum "frame"] "Request frames sent again because they seemed lost"
            => "Look for drops on the way: `fluxline doctor`, and the counters of switches.";
        frames_received [Sum "frame"] "Request frames received" => "";
        payload_placed [Sum "byte"] "Payload written into regions and buffers" => "";
        frames_duplicate [Sum "frame"] "Request frames that had come before" => "";
        frames_ahead [Sum "frame"] "Request frames that came before one that was missing" => "";
        frames_doubtful [Sum "frame"]
            "Request frames with an old PSN and a new content (reliable, configured peers)"
            => "The peer restarted, or two peers use its numbers. It repeats these frames.";
        frames_put_off [Sum "frame"]
            "Request frames that came while there was no room for them (reliable, configured peers)"
            => "Read faster, or give more memory. The peer repeats these frames.";
        frames_empty [Sum "frame"] "Writes of no bytes without a notification" => "";
        frames_wrong_check [Sum "frame"]
            "Frames whose invariant CRC was wrong (reliable, configured peers)"
            => "Bits are turned on the way. The peer repeats these frames.";
        frames_expected [Sum "frame"]
            "Request frames that the PSN says were sent (unreliable connections, configured peers)"
            => "";
        frames_lost [Sum "frame"]
            "Request frames that never came, or could not be believed (unreliable connections)"
            => "Look for drops on the way; pace the sender.";
        frames_late [Sum "frame"] "Request frames that came after a later one (unreliable)" => "";
        restarts [Sum "restart"]
            "Times that the peer's PSNs started anew (configured peers)"
            => "Ask why the sender restarted; losses across a restart cannot be counted.";
        frames_out_of_message [Sum "frame"]
            "Request frames of an operation another part of which was lost (unreliable)" => "";
        frames_refused [Sum "frame"] "Request frames that key, right or bounds forbade"
            => "Look at the key and the sizes of region and operation at the sender.";
        no_buffer [Sum "message"] "Messages for which there was no buffer"
            => "Post more buffers, or poll more often.";
        frames_foreign [Sum "frame"]
            "Frames that are not requests of its kind (unreliable and static connections)"
            => "Look at the transport that the sender is configured for.";
        frames_marked [Sum "frame"] "Request frames that a switch marked: congestion" => "";
        notifications_sent [Sum "frame"]
            "Congestion notifications sent (configured peers)" => "";
        acknowledgements_sent [Sum "frame"] "Acknowledgements sent" => "";
        acknowledgements_received [Sum "frame"] "Acknowledgements received" => "";
    }
}

crate::counters! {
    /// Frames that a node dropped: invalid ones, and those for none of its connections.
    pub struct NodeCounters {
        too_short [Sum "frame"] "Frames too short for a header and its check" => "";
        wrong_check [Sum "frame"] "Frames whose invariant CRC was wrong"
            => "Bits are turned on the way, or an address is translated (NAT).";
        unknown_kind [Sum "frame"] "Frames that are not of a known kind" => "";
        unknown_pair [Sum "frame"] "Frames for a queue pair that does not exist" => "";
        wrong_sender [Sum "frame"] "Frames for a queue pair from an address that is not its peer's"
            => "";
        not_allowed [Sum "frame"] "Set-up frames from addresses that are not allowed"
            => "Add the peer's address to those that are allowed.";
        keys_wrong [Sum "key"] "Wrong keys that peers showed for regions"
            => "Somebody guesses, or a peer has an old key.";
        keys_put_off [Sum "frame"]
            "Imports that were not looked at, since their address had shown wrong keys" => "";
        cookies_sent [Sum "frame"] "Set-up frames answered without keeping anything" => "";
        refused [Sum "connection"] "Connections refused" => "";
        management_stray [Sum "frame"]
            "Management datagrams (rdma_cm) that fit no connection, or were malformed" => "";
        management_refused [Sum "connection"] "Requests of rdma_cm that were refused" => "";
    }
}
