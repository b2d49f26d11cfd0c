//! The counters of a node's work, the same on every link.

use super::error::PostError;
use super::work::{Completion, Local, Operation, Status, Work};

crate::counters! {
    /// Counters of a node's work: operations by kind, and completions by status.
    pub struct WorkCounters {
        puts [Sum "operation"] "Puts accepted" => "";
        gets [Sum "operation"] "Gets accepted" => "";
        atomics [Sum "operation"] "Atomics accepted" => "";
        messages [Sum "operation"] "Messages accepted" => "";
        barriers [Sum "operation"] "Fences and flushes accepted" => "";
        bytes_posted [Sum "byte"] "Bytes of accepted puts, gets and messages" => "";
        posts_full [Sum "operation"] "Posts refused because the queue was full; post them again"
            => "Nothing is lost. Poll more often, or post larger operations.";
        posts_refused [Sum "operation"] "Posts refused for another reason"
            => "The program has the reason as an error; see its log.";
        notifications [Sum "completion"] "Notifications of peers' puts" => "";
        messages_received [Sum "completion"] "Messages received whole" => "";
        done [Sum "completion"] "Completions of operations that succeeded" => "";
        failed_rights [Sum "completion"] "Completions that failed: the right was not granted"
            => "Export the region with that right.";
        failed_out_of_region [Sum "completion"] "Completions that failed: outside of the region"
            => "Compare offset and length with the size that the import reported.";
        failed_unaligned [Sum "completion"] "Completions that failed: a word is not aligned"
            => "Give offsets of words in multiples of 8.";
        failed_withdrawn [Sum "completion"] "Completions that failed: the region was withdrawn"
            => "Import the region anew.";
        failed_too_long [Sum "completion"] "Completions that failed: longer than its buffer"
            => "Post longer buffers at the receiver.";
        failed_no_buffer [Sum "completion"] "Completions that failed: no buffer for the message"
            => "Post more buffers at the receiver.";
        failed_flushed [Sum "completion"] "Completions that failed: the connection ended before"
            => "The bytes may have arrived or not. Connect again.";
        failed_otherwise [Sum "completion"] "Completions that failed with another status"
            => "The program has the status; see its log.";
        connections [Sum "connection"] "Connections opened, by this node or a peer" => "";
        connections_broken [Sum "connection"] "Connections that ended or could not be opened"
            => "The program has the reason as a status; see its log.";
    }
}

impl WorkCounters {
    /// Counts a post by its outcome. For links.
    #[inline]
    pub fn posted(&mut self, work: &Work<'_>, outcome: &Result<(), PostError>) {
        match (work, outcome) {
            (Work::Put { from: Local::Bytes(bytes), .. }, Ok(())) => {
                self.puts += 1;
                self.bytes_posted += bytes.len() as u64;
            }
            (_, Ok(())) => self.accepted(work),
            (_, Err(error)) => self.refused(error),
        }
    }

    #[inline(never)] // The call of a short put is as short as possible.
    fn accepted(&mut self, work: &Work<'_>) {
        match work {
            Work::Put { from, .. } => {
                self.puts += 1;
                self.bytes_posted += from.bytes();
            }
            Work::Get { into, .. } => {
                self.gets += 1;
                self.bytes_posted += into.bytes;
            }
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => self.atomics += 1,
            Work::Send { from, .. } => {
                self.messages += 1;
                self.bytes_posted += from.bytes();
            }
            Work::Fence | Work::Flush => self.barriers += 1,
        }
    }

    #[cold]
    fn refused(&mut self, error: &PostError) {
        match error {
            PostError::Full => self.posts_full += 1,
            _ => self.posts_refused += 1,
        }
    }

    /// Counts the completion that the program gets next, if any. For links.
    #[inline]
    pub fn polled(&mut self, next: Option<&Completion>) {
        match next {
            Some(Completion::Done { operation, status: Status::Done, .. })
                if *operation != Operation::Receive =>
            {
                self.done += 1;
            }
            None => {}
            Some(other) => self.polled_other(other),
        }
    }

    #[inline(never)] // As above.
    fn polled_other(&mut self, what: &Completion) {
        match what {
            Completion::Done { operation: Operation::Receive, status: Status::Done, .. } => {
                self.messages_received += 1;
            }
            Completion::Done { status, .. } => self.ended(*status),
            Completion::Notified { .. } => self.notifications += 1,
            Completion::Connected { .. } => self.connections += 1,
            Completion::Broken { .. } => self.connections_broken += 1,
            Completion::Imported { .. } => {}
        }
    }

    fn ended(&mut self, status: Status) {
        let counter = match status {
            Status::Done => &mut self.done,
            Status::Rights => &mut self.failed_rights,
            Status::OutOfRegion => &mut self.failed_out_of_region,
            Status::Unaligned => &mut self.failed_unaligned,
            Status::Withdrawn => &mut self.failed_withdrawn,
            Status::TooLong => &mut self.failed_too_long,
            Status::NoBuffer => &mut self.failed_no_buffer,
            Status::Flushed => &mut self.failed_flushed,
            _ => &mut self.failed_otherwise,
        };
        *counter += 1;
    }
}
