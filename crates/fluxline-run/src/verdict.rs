//! The verdict on a run: is every received packet in the files, and did every required source send
//! to the end?
//!
//! Foreign broadcasts on a port are common, so the experiment may list the counters that it
//! expects: `accept = ["rejected"]`. Accepted counters stay in the summary and no longer make the
//! verdict.

use fluxline_core::planted;
use fluxline_daq::builder::Expectation;
use fluxline_daq::experiment::{
    BROKEN, GONE, INPUT_FAULTS, NOT_ACKNOWLEDGED, NOTHING_KEPT, NOTHING_RECEIVED, SILENT,
    UNDECIDED, accepts,
};
use fluxline_daq::ledger::{Counted, Fate, InputEntry, Ledger, Outcome, listed};

use crate::plan::PlannedInput;
use crate::silence::Silence;

/// The verdict on a run that has ended; each one but the first has its reason in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every packet that this host received is in the files.
    Complete,
    /// The ledger does not close, which is a defect of the program.
    LedgerOpen(String),
    /// Recording stopped before the run ended.
    RecordingStopped(String),
    /// The run finished, but received packets are not in the files or a source fell silent.
    LookNeeded(String),
}

impl Verdict {
    /// Returns the reason, if there is one.
    #[must_use]
    pub fn sentence(&self) -> Option<&str> {
        match self {
            Verdict::Complete => None,
            Verdict::LedgerOpen(sentence)
            | Verdict::RecordingStopped(sentence)
            | Verdict::LookNeeded(sentence) => Some(sentence),
        }
    }

    /// Returns `status` of run.json; docs/exit-status.md has the table.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Verdict::Complete => 0,
            Verdict::LedgerOpen(_) => 4,
            Verdict::RecordingStopped(_) => 5,
            Verdict::LookNeeded(_) => 7,
        }
    }
}

/// The facts that a verdict rests on.
pub(crate) struct Evidence<'a> {
    /// The closed ledger.
    pub ledger: &'a Ledger,
    /// Ends of received data that the experiment expects.
    pub accept: &'a [String],
    /// Inputs that ended before the run did, a sentence each.
    pub faults: &'a [String],
    /// Sources that fell silent.
    pub silence: &'a Silence,
    /// Sources that the experiment requires.
    pub require: &'a Expectation,
    /// The inputs that were open.
    pub inputs: &'a [PlannedInput],
}

impl Evidence<'_> {
    /// Returns one sentence on everything that needs a look; `None` when nothing does.
    pub fn look(&self) -> Option<String> {
        let mut reasons = Vec::new();
        if planted!(18) {
            return None;
        }
        let dropped = self.dropped(Counted::Datagrams);
        if !dropped.is_empty() {
            let count: u64 = dropped.iter().map(|outcome| outcome.count).sum();
            let received = self.ledger.received();
            let each = listed(dropped.iter());
            reasons.push(format!(
                "{count} of {received} received datagrams {} not in the files ({each})",
                if count == 1 { "is" } else { "are" }
            ));
        }
        reasons.extend(self.in_doubt());
        let frames = self.dropped(Counted::Frames);
        reasons.extend(self.nothing_received().filter(|_| frames.is_empty()));
        reasons.extend(link_reasons(self.ledger, self.accept, self.faults));
        reasons.extend(self.filter_reasons());
        reasons.extend(self.sink_reason());
        if !self.accepts(SILENT) {
            reasons.extend(self.silence.absent(self.require));
        }
        if reasons.is_empty() {
            return None;
        }
        let advice = dropped.iter().chain(&frames).max_by_key(|outcome| outcome.count);
        let advice = advice.map_or("", |outcome| outcome.remedy());
        Some(match advice {
            "" => format!("the run finished, but {}.", reasons.join("; ")),
            advice => format!("the run finished, but {}. {advice}", reasons.join("; ")),
        })
    }

    /// Returns the reason to look at packets that a builder took which has gone.
    fn in_doubt(&self) -> Option<String> {
        let count = self.ledger.edges.as_ref().map_or(0, |edges| edges.in_doubt);
        (count > 0 && !self.accepts("in_doubt")).then(|| {
            format!(
                "of {count} packets handed to a builder before it had gone, those that it had not \
                 recorded are lost (`fluxline gather` counts them from its folder)"
            )
        })
    }

    /// Returns the reason to look at a run without a single datagram: the places where it waited.
    fn nothing_received(&self) -> Option<String> {
        let writes = self.ledger.feedback.as_ref().map_or(0, |of| of.came_in);
        if self.ledger.received() > 0 || writes > 0 || self.accepts(NOTHING_RECEIVED) {
            return None;
        }
        let places = self.inputs.iter().zip(&self.ledger.inputs);
        let places: Vec<String> = places.map(|(input, entry)| waited(input, entry)).collect();
        Some(format!(
            "it received nothing: {}. `accept = [\"nothing-received\"]` allows that",
            places.join("; ")
        ))
    }

    /// Returns the reasons to look at the filter: it failed, or it kept nothing.
    fn filter_reasons(&self) -> Vec<String> {
        let filter = &self.ledger.filter;
        let mut reasons = Vec::new();
        if filter.events_undecided > 0 && !self.accepts(UNDECIDED) {
            let count = filter.events_undecided;
            reasons.push(format!("the filter failed on {count} events, which are kept and marked"));
        }
        let kept = filter.events_kept + filter.events_undecided;
        if filter.events_filtered > 0 && kept == 0 && !self.accepts(NOTHING_KEPT) {
            reasons.push(format!("the filter kept none of {} events", filter.events_filtered));
        }
        reasons
    }

    /// Returns the reason to look at the sink: it did not acknowledge every event, or a message of
    /// the run's start or stop.
    fn sink_reason(&self) -> Option<String> {
        let sink = self.ledger.sink.as_ref().filter(|_| !self.accepts(NOT_ACKNOWLEDGED))?;
        let total = self.ledger.source_totals();
        let has_no_files = total.recorded == 0 && total.not_recorded > 0;
        let mut reasons = Vec::new();
        let lacking = sink.offered.saturating_sub(sink.acked + sink.unmapped);
        if lacking > 0 {
            let advice = match lacking.saturating_sub(sink.too_large) {
                0 => "raise `record-bytes` under [sink.kafka] for the next run".to_owned(),
                _ if has_no_files => "the run has no files that have them".to_owned(),
                count => format!("`fluxline ship RUN` sends {count} of them from the files"),
            };
            reasons.push(format!(
                "the sink did not acknowledge {lacking} of {} events (too large {}, refused {}, \
                 timed out {}, left out {}): {advice}",
                sink.offered, sink.too_large, sink.refused, sink.timed_out, sink.left_out
            ));
        }
        if sink.marks_lost > 0 {
            let lost = sink.marks_lost;
            let advice = if has_no_files { "" } else { "; `fluxline ship RUN` sends them" };
            reasons.push(format!(
                "messages of the run's start or stop that the sink did not acknowledge: \
                 {lost}{advice}"
            ));
        }
        if sink.misfits > 0 {
            reasons.push(format!(
                "{} values did not fit into the sink's schema: the files have them, the topic does \
                 not",
                sink.misfits
            ));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn accepts(&self, name: &str) -> bool {
        accepts(self.accept, name)
    }

    fn dropped(&self, of: Counted) -> Vec<Outcome> {
        dropped(self.ledger, self.accept, of)
    }
}

/// Returns where an input waited in vain, and what to check there.
fn waited(input: &PlannedInput, entry: &InputEntry) -> String {
    let name = &input.name;
    match (input.listens.is_empty(), entry.counters.other_traffic) {
        (false, _) => format!(
            "source `{name}` listened on {}; compare the sender's destination, look for its \
             packets with tcpdump, and run `fluxline doctor`",
            input.listens.join(", ")
        ),
        (true, 0) => format!("source `{name}` has no data"),
        (true, other) => {
            format!("source `{name}` has {other} frames, none for it; check `ports` (--ports)")
        }
    }
}

/// Returns the reasons to look at the inputs of a ledger: frames without a datagram, inputs that
/// ended early (`faults`, a sentence each), senders that vanished.
#[must_use]
pub fn link_reasons(ledger: &Ledger, accept: &[String], faults: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    let frames = dropped(ledger, accept, Counted::Frames);
    if !frames.is_empty() {
        let count: u64 = frames.iter().map(|outcome| outcome.count).sum();
        reasons.push(format!("{count} frames gave no datagram ({})", listed(frames.iter())));
    }
    if !accepts(accept, INPUT_FAULTS) {
        reasons.extend(faults.iter().map(|fault| fault.trim_end_matches('.').to_owned()));
    }
    let remote = ledger.remote_totals();
    if remote.producers_gone > 0 && !accepts(accept, GONE) {
        let gone = remote.producers_gone;
        reasons.push(format!("senders or producers that vanished during the run: {gone}"));
    }
    if remote.senders_broken > 0 && !accepts(accept, BROKEN) {
        let broken = remote.senders_broken;
        reasons.push(format!("reliable senders whose retries ran out: {broken}"));
    }
    reasons
}

/// Returns the ends of received data that are not in the files, and that nobody accepts.
fn dropped(ledger: &Ledger, accept: &[String], of: Counted) -> Vec<Outcome> {
    let mut outcomes = ledger.outcomes();
    outcomes.retain(|outcome| {
        let row = outcome.row;
        row.fate == Fate::Dropped && row.of == of && !accepts(accept, row.name())
    });
    outcomes
}

#[cfg(test)]
mod tests {
    use fluxline_daq::experiment::check_accept;
    use fluxline_daq::ledger::{InputCounters, SinkCounters, SourceCounters, SourceEntry};

    use super::*;
    use crate::silence::SilentSource;

    /// A ledger of one datagram, which was recorded.
    fn of_one() -> Ledger {
        ledger(InputCounters { datagrams: 1, ..InputCounters::default() })
    }

    fn ledger(counters: InputCounters) -> Ledger {
        let name = "port".to_owned();
        let entry = InputEntry { name, counters, ..InputEntry::default() };
        Ledger { inputs: vec![entry], ..Ledger::default() }
    }

    fn look(
        ledger: &Ledger,
        accept: &[&str],
        silence: &Silence,
        require: Expectation,
    ) -> Option<String> {
        let accept: Vec<String> = accept.iter().map(|name| (*name).to_owned()).collect();
        check_accept(&accept).unwrap();
        let (accept, faults) = (accept.as_slice(), &[]);
        let inputs = &[PlannedInput {
            name: "board".to_owned(),
            listens: vec!["127.0.0.1:6006".to_owned()],
            drawn_key: None,
        }];
        Evidence { ledger, accept, faults, silence, require: &require, inputs }.look()
    }

    #[test]
    fn every_end_outside_the_files_needs_a_look_unless_it_is_accepted() {
        let counters =
            InputCounters { datagrams: 7, rejected: 4, socket_dropped: 2, ..Default::default() };
        let ledger = ledger(counters);
        let (silence, none) = (Silence::default(), Expectation::Joined);
        let said = look(&ledger, &[], &silence, none.clone()).unwrap();
        assert!(said.contains("6 of 9 received datagrams are not in the files"), "{said}");
        assert!(said.contains("(rejected 4, socket dropped 2)"), "{said}");
        let said = look(&ledger, &["rejected"], &silence, none.clone()).unwrap();
        assert!(said.contains("2 of 9 received"), "{said}");
        assert_eq!(look(&ledger, &["rejected", "socket-dropped"], &silence, none), None);
        assert!(check_accept(&["recorded".to_owned()]).unwrap_err().contains("rejected"));
    }

    #[test]
    fn a_run_that_received_nothing_says_where_it_listened_unless_it_is_accepted() {
        let (silence, none) = (Silence::default(), Expectation::Joined);
        let nothing = ledger(InputCounters::default());
        let said = look(&nothing, &[], &silence, none.clone()).unwrap();
        assert!(said.contains("received nothing: source `board` listened on 127.0.0.1"), "{said}");
        assert_eq!(look(&nothing, &["nothing-received"], &silence, none.clone()), None);
        assert_eq!(look(&of_one(), &[], &silence, none), None);
    }

    #[test]
    fn events_that_the_sink_did_not_acknowledge_need_a_look_unless_it_is_accepted() {
        let sink = SinkCounters { offered: 9, acked: 6, timed_out: 3, ..SinkCounters::default() };
        let ledger = Ledger { sink: Some(sink), ..of_one() };
        let (silence, none) = (Silence::default(), Expectation::Joined);
        let said = look(&ledger, &[], &silence, none.clone()).unwrap();
        assert!(said.contains("did not acknowledge 3 of 9 events"), "{said}");
        assert!(said.contains("timed out 3") && said.contains("fluxline ship"), "{said}");
        assert_eq!(look(&ledger, &["not_acknowledged"], &silence, none), None);
    }

    #[test]
    fn shipping_is_advised_only_for_events_that_it_can_send() {
        let (silence, none) = (Silence::default(), Expectation::Joined);
        let of = |timed_out: u64, too_large: u64, counters: SourceCounters| {
            let offered = 9 + timed_out + too_large;
            let sink =
                SinkCounters { offered, acked: 9, timed_out, too_large, ..Default::default() };
            let source = SourceEntry { counters, ..SourceEntry::default() };
            let ledger = Ledger { sink: Some(sink), sources: vec![source], ..of_one() };
            look(&ledger, &[], &silence, none.clone()).unwrap()
        };
        let said = of(3, 2, SourceCounters { recorded: 14, ..SourceCounters::default() });
        assert!(said.contains("`fluxline ship RUN` sends 3 of them"), "{said}");
        let said = of(0, 2, SourceCounters { recorded: 11, ..SourceCounters::default() });
        assert!(said.contains("raise `record-bytes`") && !said.contains("ship"), "{said}");
        let said = of(3, 0, SourceCounters { not_recorded: 12, ..SourceCounters::default() });
        assert!(said.contains("has no files") && !said.contains("ship"), "{said}");
    }

    #[test]
    fn lost_messages_of_start_or_stop_need_a_look_unless_it_is_accepted() {
        let sink = SinkCounters { offered: 9, acked: 9, marks_lost: 1, ..SinkCounters::default() };
        let ledger = Ledger { sink: Some(sink), ..of_one() };
        let (silence, none) = (Silence::default(), Expectation::Joined);
        let said = look(&ledger, &[], &silence, none.clone()).unwrap();
        assert!(said.contains("start or stop that the sink did not acknowledge: 1"), "{said}");
        assert!(said.contains("`fluxline ship RUN` sends them"), "{said}");
        assert_eq!(look(&ledger, &["not_acknowledged"], &silence, none), None);
    }

    #[test]
    fn required_source_that_is_silent_or_never_came_needs_a_look() {
        let ledger = of_one();
        let silence = Silence {
            seen: ["a", "b", "c"].map(str::to_owned).to_vec(),
            unknown: 0,
            sources: vec![SilentSource { label: "b".to_owned(), silent_ms: 2500 }],
        };
        let said = look(&ledger, &[], &silence, Expectation::Count(3)).unwrap();
        assert!(said.contains("2 of 3 required sources") && said.contains("b silent"), "{said}");
        assert_eq!(look(&ledger, &["silent"], &silence, Expectation::Count(3)), None);
        assert_eq!(look(&ledger, &[], &silence, Expectation::Count(2)), None);
        let labels = |names: &[&str]| {
            Expectation::Sources(names.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(look(&ledger, &[], &silence, labels(&["a", "c"])), None);
        let said = look(&ledger, &[], &silence, labels(&["a", "b", "x"])).unwrap();
        assert!(said.contains("required source b silent for the last 2.5 s"), "{said}");
        assert!(said.contains("required source x sent nothing"), "{said}");
    }
}
