//! The way of requests and answers through the card, in both directions.

use super::card::{Answer, Owner, Sent, answer_bytes, request_bytes};
use super::config::Posting;
use super::{Access, Handle, Host, Incoming, Out, Outcome, Report, RequestId, Status, Step};

impl Host {
    /// Sends a request through the card.
    pub(super) fn card_send(
        &mut self,
        owner: Owner,
        to: u32,
        access: Access,
        offset: u64,
        data: Vec<u8>,
    ) -> Handle {
        let handle = self.handle_of_next();
        self.card.sent.insert(handle, Sent { owner, access });
        let bytes = request_bytes(access, data.len());
        self.card_out(handle, bytes, Out::Request { handle, to, access, offset, data });
        handle
    }

    fn card_out(&mut self, number: u64, bytes: u32, out: Out) {
        let crossed = self.card.cross(self.now, bytes, self.config.card.internal_mb_per_s);
        self.card.leaving.insert(number, out);
        self.schedule(crossed + self.config.card.out_latency, Step::Leave(number));
    }

    /// Handles a packet that has come through the card to the link.
    pub(super) fn card_leave(&mut self, number: u64) {
        let Some(out) = self.card.leaving.remove(number) else { return };
        let mut owner = Owner::Nobody;
        if let Out::Request { handle, access, data, .. } = &out {
            self.counters.requests += 1;
            self.counters.sent_bytes += data.len() as u64;
            let free = *access == Access::Move && self.config.card.posting == Posting::Move;
            if free && let Some(sent) = self.card.sent.get_mut(*handle) {
                owner = std::mem::replace(&mut sent.owner, Owner::Nobody);
            }
        }
        self.outs.push_back(out);
        self.packet_done(owner, Outcome::Done(Status::Normal), Vec::new());
    }

    /// Handles the end of a request, reported by the link.
    pub(super) fn card_finished(&mut self, handle: Handle, outcome: Outcome, data: Vec<u8>) {
        let Some(sent) = self.card.sent.remove(handle) else { return };
        if outcome != Outcome::Done(Status::Normal) {
            self.counters.failures += 1;
            if sent.owner != Owner::Processor {
                self.card.worst = Some(outcome);
            }
        }
        if !sent.access.is_answered() || outcome == Outcome::Lost {
            return self.packet_done(sent.owner, outcome, data);
        }
        let (bytes, config) = (answer_bytes(sent.access), &self.config.card);
        let crossed = self.card.cross(self.now, bytes, config.internal_mb_per_s);
        self.schedule(crossed + config.in_latency, Step::Answered(handle));
        self.card.answers.insert(handle, Answer { owner: sent.owner, outcome, data });
    }

    /// Handles an answer that has come through the card.
    pub(super) fn card_answered(&mut self, handle: Handle) {
        if let Some(Answer { owner, outcome, data }) = self.card.answers.remove(handle) {
            self.packet_done(owner, outcome, data);
        }
    }

    fn packet_done(&mut self, owner: Owner, outcome: Outcome, data: Vec<u8>) {
        match owner {
            Owner::Stream(stream) => self.stream_done(stream),
            Owner::Processor => self.cpu_answer(outcome, data),
            Owner::Burst(burst) => self.engine_answer(burst, outcome, data),
            Owner::Nobody => {}
        }
    }

    /// Handles a request from the link.
    pub(super) fn card_incoming(&mut self, request: Incoming) {
        let bytes = request_bytes(request.access, request.data.len());
        let crossed = self.card.cross(self.now, bytes, self.config.card.internal_mb_per_s);
        self.schedule(crossed + self.config.card.in_latency, Step::Through(request.request));
        self.card.serving.insert(request.request, request);
    }

    /// Handles a request that has come through the card: it needs the bus; an event needs the
    /// processor.
    pub(super) fn card_through(&mut self, request: RequestId) {
        let Some(incoming) = self.card.serving.get(request) else { return };
        let length = incoming.data.len() as u32;
        let over = match incoming.access {
            Access::Read { bytes } => self.bus.read(self.now, bytes),
            Access::Lock(_) => {
                let read = self.bus.read(self.now, length);
                self.bus.write(read, length)
            }
            Access::Write | Access::Move => self.bus.write(self.now, length),
        };
        self.schedule(over, Step::Crossed(request));
    }

    /// Reports a request that the bus has carried; the composer owns the memory and serves it.
    pub(super) fn card_crossed(&mut self, request: RequestId) {
        if let Some(incoming) = self.card.serving.remove(request) {
            self.card.open.insert(request, incoming.access);
            self.reports.push_back(Report::Serve(incoming));
        }
    }

    /// Takes the composer's answer to a request.
    pub(super) fn card_served(&mut self, request: RequestId, status: Status, data: Vec<u8>) {
        let access = self.card.open.remove(request);
        if let Some(access) = access.filter(|access| access.is_answered()) {
            let number = self.handle_of_next();
            let out = Out::Response { request, status, data };
            self.card_out(number, answer_bytes(access), out);
        }
    }
}
