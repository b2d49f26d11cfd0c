//! The courier as responder: requests in order, each once, and their answers.

use super::frame::{Body, Frame};
use super::inbound::Turn;
use super::{Courier, Step, What};
use crate::core::agenda::Schedule;
use crate::fabric::adapter::{Action, Report};
use crate::fabric::memory::NodeMemory;
use crate::host::{Atomic, Status};

impl<W> Courier<W> {
    /// Acts on a frame that the processor has taken.
    pub(super) fn received(
        &mut self,
        mut frame: Frame,
        memory: &mut NodeMemory,
        agenda: &mut impl Schedule<Step>,
    ) {
        let source = frame.source;
        if self.gone.contains(&source) {
            return;
        }
        self.inbound.entry(source).or_default().learn(frame.oldest);
        self.end_done(&mut frame, agenda);
        let inbound = self.inbound.entry(source).or_default();
        match frame.body {
            Body::Ask(_) | Body::Ping => {}
            Body::Inquiry => {
                inbound.heard = frame.inquiry;
                return self.answer(source, agenda);
            }
            Body::Answer(_) | Body::Load(_) => return,
        }
        let wants_answer = match inbound.turn(frame.request) {
            Turn::Past => {
                self.counts.responder.locks_again += 1;
                true
            }
            Turn::Later => return inbound.wait(frame),
            Turn::Now => self.do_in_turn(frame, memory),
        };
        if wants_answer {
            self.owe(source, agenda);
        }
    }

    /// Does a request, and those that came before it; returns true if an answer is wanted.
    fn do_in_turn(&mut self, frame: Frame, memory: &mut NodeMemory) -> bool {
        let (source, mut next, mut wants_answer) = (frame.source, Some(frame), false);
        while let Some(Frame { body, asks, .. }) = next {
            wants_answer |= asks;
            let result = match body {
                Body::Ask(action) => self.serve(source, action, memory),
                _ => Ok(Vec::new()),
            };
            let inbound = self.inbound.entry(source).or_default();
            inbound.did(result);
            next = inbound.next_early();
        }
        wants_answer
    }

    /// Answers a peer at once if there are results for it; otherwise soon, unless a frame of
    /// another purpose says earlier what is done.
    fn owe(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let step = self.step(What::Lingered(peer));
        let inbound = self.inbound.entry(peer).or_default();
        if inbound.keeps() {
            return self.answer(peer, agenda);
        }
        let due = agenda.now() + self.times.linger;
        inbound.owed_by = inbound.owed_by.or(Some(due));
        if !std::mem::replace(&mut inbound.is_timed, true) {
            agenda.schedule(due, step);
        }
    }

    /// Answers a peer that has waited long enough, unless a frame to it is on its way out.
    pub(super) fn lingered(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let step = self.step(What::Lingered(peer));
        let inbound = self.inbound.entry(peer).or_default();
        inbound.is_timed = false;
        match inbound.owed_by {
            Some(due) if due > agenda.now() => {
                inbound.is_timed = true;
                agenda.schedule(due, step);
            }
            Some(_) if inbound.leaving == 0 => self.answer(peer, agenda),
            _ => {}
        }
    }

    fn answer(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let inbound = self.inbound.entry(peer).or_default();
        let heard = inbound.heard;
        let (done, kept) = inbound.answer();
        let frame = Frame::new(self.number, peer, 0, Body::Answer(kept));
        self.send(Frame { done, heard, ..frame }, agenda);
    }

    /// Does a request of another node on memory.
    fn serve(
        &mut self,
        source: u32,
        action: Action,
        memory: &mut NodeMemory,
    ) -> Result<Vec<u8>, Status> {
        let word = |before: u64| before.to_le_bytes().to_vec();
        let answer = match action {
            Action::Write { offset, data, word } => memory.write(source, offset, &data).map(|()| {
                let message = |message| Report::Message { from: source, message };
                self.reports.extend(word.map(message));
                Vec::new()
            }),
            Action::Read { offset, bytes } => {
                let mut data = vec![0; bytes as usize];
                memory.read(source, offset, &mut data).map(|count| {
                    data.truncate(count);
                    data
                })
            }
            Action::FetchAdd { offset, add } => {
                memory.lock(source, offset, Atomic::FetchAdd, [add, 0]).map(word)
            }
            Action::CompareSwap { offset, expected, desired } => {
                memory.lock(source, offset, Atomic::CompareSwap, [expected, desired]).map(word)
            }
            Action::Message(message) => {
                self.reports.push_back(Report::Message { from: source, message });
                Ok(Vec::new())
            }
        };
        match answer {
            Ok(_) => self.counts.responder.done += 1,
            Err(_) => self.counts.responder.refused += 1,
        }
        answer
    }
}
