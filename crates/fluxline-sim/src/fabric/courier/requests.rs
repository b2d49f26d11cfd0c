//! The courier as requester: departures, ends, inquiries.

use super::frame::{Body, Frame, Kept};
use super::line::{Errand, Line};
use super::{Courier, Step, What};
use crate::core::agenda::Schedule;
use crate::fabric::adapter::{Failure, Report};

impl<W> Courier<W> {
    /// Adds a request, and sends it as soon as its line allows it.
    pub(super) fn add(&mut self, peer: u32, errand: Errand, agenda: &mut impl Schedule<Step>) {
        if self.gone.contains(&peer) {
            return self.lose(errand);
        }
        let first = self.first_request;
        self.counts.requester.begun += 1;
        self.lines.entry(peer).or_insert_with(|| Line::new(first)).add(errand);
        self.pump(peer, agenda);
    }

    /// Sends the requests to a peer that can be under way.
    fn pump(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let now = agenda.now();
        while let Some((request, body)) = self.lines.get_mut(&peer).and_then(|line| line.next(now))
        {
            self.send(Frame::new(self.number, peer, request, body), agenda);
        }
    }

    /// Ends the requests that a peer has done, as a frame says.
    pub(super) fn end_done(&mut self, frame: &mut Frame, agenda: &mut impl Schedule<Step>) {
        let peer = frame.source;
        let Some(line) = self.lines.get_mut(&peer) else { return };
        let (mut results, is_answer) = match &mut frame.body {
            Body::Answer(kept) => (std::mem::take(kept), true),
            _ => (Vec::new(), false),
        };
        let before = line.oldest();
        while let Some(errand) = line.take_done(frame.done) {
            self.counts.requester.answered += 1;
            let number = line.oldest() - 1;
            let place = results.iter().position(|kept| kept.request == number);
            let kept = place.map(|place| results.swap_remove(place));
            let result = kept.map_or(Ok(Vec::new()), |Kept { result, .. }| result);
            let ended = |job| Report::Ended { job, result: result.map_err(Failure::Refused) };
            self.reports.extend(errand.job.map(ended));
        }
        let is_stray = line.oldest() == before;
        self.counts.requester.stray += u64::from(is_stray && is_answer);
        self.counts.requester.repeated += line.heard(frame.heard) as u64;
        if !is_stray {
            line.progress = agenda.now();
            self.watch(peer, agenda);
        }
        self.pump(peer, agenda);
    }

    /// Waits for an answer of a peer from now on.
    pub(super) fn watch(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let step = self.step(What::Overdue(peer));
        let Some(line) = self.lines.get_mut(&peer) else { return };
        let bytes = line.bytes_under_way();
        let patience = self.times.answer + self.times.answer_per_byte.times(bytes);
        line.deadline = agenda.now() + patience;
        if !std::mem::replace(&mut line.is_timed, true) {
            agenda.schedule(line.deadline, step);
        }
    }

    /// Asks a peer whose answer is overdue what it has done, or gives it up.
    pub(super) fn overdue(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let step = self.step(What::Overdue(peer));
        let Some(line) = self.lines.get_mut(&peer) else { return };
        line.is_timed = false;
        if !line.is_under_way() {
            return;
        }
        if agenda.now() < line.deadline {
            line.is_timed = true;
            return agenda.schedule(line.deadline, step);
        }
        let lost: Vec<Errand> = std::iter::from_fn(|| line.take_unrepeated()).collect();
        if line.is_under_way() && agenda.now().since(line.progress) >= self.times.give_up {
            self.counts.requester.given_up += 1;
            self.gone.insert(peer);
            self.reports.push_back(Report::PeerGone { peer });
            lost.into_iter().for_each(|errand| self.lose(errand));
            return self.end_all(peer);
        }
        if line.is_under_way() {
            line.inquire();
            self.counts.requester.inquiries += 1;
            self.send(Frame::new(self.number, peer, 0, Body::Inquiry), agenda);
            self.watch(peer, agenda);
        }
        lost.into_iter().for_each(|errand| self.lose(errand));
        self.pump(peer, agenda);
    }

    /// Ends all requests to a peer as lost.
    pub(super) fn end_all(&mut self, peer: u32) {
        while let Some(errand) = self.lines.get_mut(&peer).and_then(Line::take) {
            self.lose(errand);
        }
    }

    /// Reports a request as lost.
    fn lose(&mut self, errand: Errand) {
        let lost = |job| Report::Ended { job, result: Err(Failure::Lost) };
        self.reports.extend(errand.job.map(lost));
    }
}
