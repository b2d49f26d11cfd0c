//! The rules of health: what they find in the samples of the last seconds.
//!
//! One cause gives one finding. While a source is silent, the events that lack it are in the
//! source's sentence, and losses before this host explain the events that lack the lost packets.

use std::collections::BTreeMap;

use fluxline_core::{Moment, Span};
use fluxline_daq::builder::Expectation;
use fluxline_daq::experiment::{
    Alarm, Experiment, Health as Limits, NOTHING_RECEIVED, SILENT, Severity, accepts,
};
use fluxline_daq::ledger::Outcome;

use super::sample::{Sample, SourceSample, Window, dropped_rows};
use crate::alarms::Finding;
use crate::control::RunState;
use crate::silence::limit_ns;

/// The time over which shares and rates are taken.
const RECENT: Span = Span::from_ms(10_500);
/// Shares of less than this time say nothing.
const RECENT_MIN: Span = Span::from_ms(4_500);
/// The time over which the disk's rate is taken.
const DISK: Span = Span::from_ms(60_500);
/// The time for which a ring must stay full.
const FULL: Span = Span::from_ms(2_500);
/// The time after which a readout that does not answer is blocked.
const STALLED: Span = Span::from_ms(10_000);
/// Samples of less than this time do not show that a ring stays full.
const FULL_MIN: Span = Span::from_ms(1_500);
/// The time in which events close that lack a source which sends again.
const CLOSING: Span = Span::from_ms(1_500);
/// Batches that wait this long, or longer, do not show that a recorder stands still \[ms\].
const BATCH_MS: u64 = 5_000;
/// Most sources that are named alone; more are one finding.
const NAMED_MAX: usize = 8;

/// The rules of a run, and since when those of the experiment hold.
#[derive(Debug)]
pub struct Rules {
    limits: Limits,
    own: Vec<Alarm>,
    require: Expectation,
    accept: Vec<String>,
    holds: BTreeMap<usize, Moment>,
    /// The last time at which silence or losses explained the events that lack a packet.
    explained: Moment,
    /// Since when events lack packets without that.
    lacking: Option<Moment>,
    /// A recorder that stands still is seen.
    records: bool,
}

impl Rules {
    /// Makes the rules of an experiment. A node of several does not know the sources of the others
    /// (`is_part`).
    pub fn of(experiment: &Experiment, is_part: bool) -> Rules {
        let require = experiment.events.require.clone();
        Rules {
            limits: experiment.health.clone(),
            own: experiment.alarms.clone(),
            require: if is_part { Expectation::Joined } else { require },
            accept: experiment.accept.clone(),
            holds: BTreeMap::new(),
            explained: Moment::default(),
            lacking: None,
            records: experiment.record.enabled && experiment.record.batch_ms < BATCH_MS,
        }
    }

    /// Returns what is not normal at the time `at`, at most a second after the newest sample where
    /// the readout works.
    pub fn find(&mut self, window: &Window, at: Moment) -> Vec<Finding> {
        let Some(now) = window.now() else { return Vec::new() };
        let recent = Recent::of(window, now);
        let mut found = self.silent(window, now, recent.as_ref());
        found.extend(recent.as_ref().and_then(|recent| self.lost(recent)));
        if !found.is_empty() {
            self.explained = now.at;
        }
        found.extend(self.incomplete(window, now));
        if let Some(recent) = &recent {
            found.extend(dropped(recent));
            found.extend(self.stalled(window, recent));
        }
        found.extend(self.disk(window, now));
        found.extend(self.ring(window));
        found.extend(self.clock(now));
        found.extend(self.own(now, recent.as_ref()));
        found.extend(readout_stalled(now, at));
        found
    }

    /// Finds sources that stopped sending, and required ones that never came.
    fn silent(&self, window: &Window, now: &Sample, recent: Option<&Recent<'_>>) -> Vec<Finding> {
        if accepts(&self.accept, SILENT) {
            return Vec::new();
        }
        let live = now.sources.iter().filter(|source| source.is_live && source.packets > 0);
        let live: Vec<&SourceSample> = live.collect();
        let has_files = now.sources.iter().any(|source| !source.is_live);
        let quiet = |source: &SourceSample| now.at.since(Moment::from_ns(source.last_ns));
        let is_silent = |source: &&SourceSample| quiet(source) > self.limit_of(source);
        let (silent, sending): (Vec<&SourceSample>, Vec<&SourceSample>) =
            live.iter().copied().partition(is_silent);
        if sending.is_empty() {
            return if has_files { Vec::new() } else { self.all_silent(window, now, &live) };
        }
        let too_few = match &self.require {
            Expectation::Count(count) => sending.len() < *count as usize,
            _ => false,
        };
        let lacking = recent.map_or_else(String::new, Recent::lacking);
        let mut found: Vec<Finding> = silent
            .iter()
            .map(|source| {
                let required = match &self.require {
                    Expectation::Sources(labels) => labels.contains(&source.label),
                    Expectation::Count(_) => too_few,
                    Expectation::Joined => false,
                };
                let for_s = seconds(quiet(source));
                let words = if required { "required source" } else { "source" };
                let sentence =
                    format!("{words} {} has been silent for {for_s}{lacking}", source.label);
                Finding::new(
                    "source-silent",
                    &source.label,
                    severe(required),
                    sentence,
                    CHECK_SOURCE,
                )
            })
            .collect();
        found.extend(self.never_came(window, now, &live));
        grouped(found, live.len(), &lacking)
    }

    /// Finds that nothing comes any more, or has come since the start.
    fn all_silent(&self, window: &Window, now: &Sample, live: &[&SourceSample]) -> Vec<Finding> {
        let last = live.iter().map(|source| Moment::from_ns(source.last_ns)).max();
        let since = last.unwrap_or_else(|| window.began());
        let quiet = now.at.since(since);
        let is_accepted = last.is_none() && accepts(&self.accept, NOTHING_RECEIVED);
        if is_accepted || quiet.as_ns() as f64 * 1e-9 <= self.limits.silent_s {
            return Vec::new();
        }
        let for_s = seconds(quiet);
        let sentence = match last {
            Some(_) => format!("none of {} sources has sent for {for_s}", live.len()),
            None => format!("nothing has been received for {for_s}"),
        };
        let required = self.require != Expectation::Joined;
        vec![Finding::new("source-silent", "", severe(required), sentence, CHECK_ALL)]
    }

    /// Finds required sources that have not sent since the start.
    fn never_came(&self, window: &Window, now: &Sample, live: &[&SourceSample]) -> Vec<Finding> {
        let waited = now.at.since(window.began());
        if waited.as_ns() as f64 * 1e-9 <= self.limits.silent_s {
            return Vec::new();
        }
        let for_s = seconds(waited);
        match &self.require {
            Expectation::Sources(labels) => labels
                .iter()
                .filter(|label| now.sources.iter().all(|source| source.label != **label))
                .map(|label| {
                    let sentence = format!("required source {label} has sent nothing for {for_s}");
                    Finding::new("source-silent", label, Severity::Alarm, sentence, CHECK_SOURCE)
                })
                .collect(),
            Expectation::Count(count) if now.sources.len() < *count as usize => {
                let came = live.len();
                let sentence = format!("{came} of {count} required sources have sent for {for_s}");
                vec![Finding::new("sources-missing", "", Severity::Alarm, sentence, CHECK_SOURCE)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the silence after which a source is called silent.
    fn limit_of(&self, source: &SourceSample) -> Span {
        let lasted_ns = source.last_ns.saturating_sub(source.first_ns);
        let shortest_ns = (self.limits.silent_s * 1e9) as u64;
        Span::from_ns(limit_ns(lasted_ns, source.packets, shortest_ns))
    }

    /// Finds events that lack packets although all sources send and nothing is lost: that must last
    /// longer than the time after which a source is silent, which would explain it.
    fn incomplete(&mut self, window: &Window, now: &Sample) -> Option<Finding> {
        let unexplained = now.at.since(self.explained + CLOSING).as_ns();
        let before = window.before(Span::from_ns(unexplained.min(RECENT.as_ns())))?;
        let recent = Recent { now, before };
        let percent = recent.incomplete_percent().filter(|_| !recent.is_short(RECENT_MIN));
        let percent = percent.unwrap_or(0.0);
        let Some(severity) = above(percent, self.limits.incomplete_percent) else {
            self.lacking = None;
            return None;
        };
        let lasted = now.at.since(*self.lacking.get_or_insert(now.at));
        if lasted.as_ns() as f64 * 1e-9 < self.limits.silent_s {
            return None;
        }
        let sentence = format!("{} lack a packet", recent.events_words(percent));
        Some(Finding::new("incomplete", "", severity, sentence, CHECK_EVENTS))
    }

    fn lost(&self, recent: &Recent<'_>) -> Option<Finding> {
        let (packets, lost) = (recent.grown(|of| of.packets), recent.grown(|of| of.lost));
        let percent = share(lost, packets + lost)?;
        let severity = above(percent, self.limits.loss_percent)?;
        let sentence = format!(
            "{} % of the packets of the last {} s were lost before this host ({lost} of {})",
            digits(percent),
            recent.seconds(),
            packets + lost
        );
        Some(Finding::new("loss", "", severity, sentence, "`fluxline doctor` looks for the place"))
    }

    /// Finds that events close and nothing reaches the disk.
    fn stalled(&self, window: &Window, recent: &Recent<'_>) -> Option<Finding> {
        let ran = window.last(RECENT).all(|sample| sample.state == RunState::Running);
        let (events, dealt) = (recent.grown(|of| of.events), recent.grown(|of| of.dealt_with));
        if !self.records || !ran || events == 0 || dealt > 0 || recent.is_short(RECENT_MIN) {
            return None;
        }
        let since = recent.seconds();
        let sentence = format!("nothing was written for {since} s, while {events} events closed");
        let advice = "look at the disk of the run folder: does it answer?";
        Some(Finding::new("recorder-stalled", "", Severity::Alarm, sentence, advice))
    }

    fn disk(&self, window: &Window, now: &Sample) -> Option<Finding> {
        let (free, before) = (now.free_bytes?, window.before(DISK)?);
        let span = now.at.since(before.at);
        let written = now.recorded_bytes.saturating_sub(before.recorded_bytes);
        if span < RECENT_MIN || written == 0 || now.state != RunState::Running {
            return None;
        }
        let minutes = free as f64 / (written as f64 / (span.as_ns() as f64 * 1e-9)) / 60.0;
        let [warning, alarm] = self.limits.disk_minutes;
        let severity = match minutes {
            _ if minutes < alarm => Severity::Alarm,
            _ if minutes < warning => Severity::Warning,
            _ => return None,
        };
        let sentence = format!("the disk is full in {minutes:.0} min at the present rate");
        let advice = "free space, or stop and go on in a folder of another disk";
        Some(Finding::new("disk", "", severity, sentence, advice))
    }

    fn ring(&self, window: &Window) -> Option<Finding> {
        window.now()?.at.since(window.before(FULL)?.at).ge(&FULL_MIN).then_some(())?;
        let least = window.last(FULL).map(|sample| sample.ring_percent).min()?;
        let severity = above(least as f64, self.limits.ring_percent)?;
        let sentence = format!("the fullest ring of an input is {least} % full");
        let advice = "raise `ring-slots` of the source, or give the readout a core of its own";
        Some(Finding::new("ring", "", severity, sentence, advice))
    }

    fn clock(&self, now: &Sample) -> Option<Finding> {
        let limit = self.limits.clock_us?;
        let sentence = match now.clock_error_us {
            Some(error) if error <= limit => return None,
            Some(error) => format!("this host's clock may be wrong by {error:.0} us"),
            None => "this host's clock is not kept in time".to_owned(),
        };
        let advice = "start chrony or ptp4l; packets carry this clock's time";
        Some(Finding::new("clock", "", Severity::Warning, sentence, advice))
    }

    /// Finds values beyond the limits of the experiment's own rules.
    fn own(&mut self, now: &Sample, recent: Option<&Recent<'_>>) -> Vec<Finding> {
        let mut found = Vec::new();
        for (number, alarm) in self.own.iter().enumerate() {
            let value = match alarm.subject().is_rate {
                true => recent.and_then(|recent| recent.rate(number)),
                false => now.own.get(number).copied(),
            };
            let is_beyond = value.is_some_and(|value| {
                alarm.above.is_some_and(|limit| value > limit)
                    || alarm.below.is_some_and(|limit| value < limit)
                    || alarm.stale_s.is_some_and(|limit| value > limit)
            });
            let (true, Some(value)) = (is_beyond, value) else {
                self.holds.remove(&number);
                continue;
            };
            let since = *self.holds.entry(number).or_insert(now.at);
            if now.at.since(since).as_ns() as f64 * 1e-9 >= alarm.hold_s {
                let sentence = own_sentence(alarm, value);
                let (name, advice) = (&alarm.name, &alarm.advice);
                found.push(Finding::new("own", name, alarm.severity, sentence, advice));
            }
        }
        found
    }
}

const CHECK_SOURCE: &str = "look at its power, its cable and its configuration";
const CHECK_ALL: &str = "look at the switch and the trigger; `fluxline doctor` looks at this host";
const CHECK_EVENTS: &str = "the table of sources shows which of them events lack";

/// Finds that the readout has not published its counters for long: it is blocked.
fn readout_stalled(now: &Sample, at: Moment) -> Option<Finding> {
    let quiet = at.since(now.at);
    let sentence = format!("the readout has not answered for {}", seconds(quiet));
    let advice = "look at the load of this host, and at the disk of the run folder";
    (quiet > STALLED)
        .then(|| Finding::new("readout-stalled", "", Severity::Alarm, sentence, advice))
}

/// Returns the clause on a value beyond the limit of an own rule.
fn own_sentence(alarm: &Alarm, value: f64) -> String {
    let Alarm { name, value: of, .. } = alarm;
    let (side, limit) = match (alarm.above, alarm.below, alarm.stale_s) {
        (Some(limit), _, _) => ("above", limit),
        (None, Some(limit), _) => ("below", limit),
        _ => {
            let silence = seconds(Span::from_ms((value * 1e3) as u64));
            return format!("{name}: {of} has not been sent for {silence}");
        }
    };
    format!("{name}: {of} is {}, {side} {}", digits(value), digits(limit))
}

/// Finds received data that is not in the files.
fn dropped(recent: &Recent<'_>) -> Vec<Finding> {
    let each = recent.now.dropped.iter().zip(&recent.before.dropped).zip(dropped_rows());
    let grown =
        each.map(|((now, before), row)| Outcome { row, count: now.saturating_sub(*before) });
    grown
        .filter(|outcome| outcome.count > 0)
        .map(|outcome| {
            let severity = match outcome.row.counter {
                "source.write_failed" | "edge.lost" => Severity::Alarm,
                _ => Severity::Warning,
            };
            let sentence = format!(
                "{} received packets of the last {} s are not in the files: {}",
                outcome.count,
                recent.seconds(),
                outcome.row.words
            );
            Finding::new("dropped", outcome.row.name(), severity, sentence, outcome.remedy())
        })
        .collect()
}

/// Returns one finding for many silent sources.
fn grouped(found: Vec<Finding>, sources: usize, lacking: &str) -> Vec<Finding> {
    if found.len() <= NAMED_MAX {
        return found;
    }
    let severity = found.iter().map(|one| one.severity).max().unwrap_or_default();
    let named: Vec<&str> = found.iter().take(3).map(|one| one.about.as_str()).collect();
    let sentence = format!(
        "{} sources are silent ({}, ..), {sources} have sent{lacking}",
        found.len(),
        named.join(", ")
    );
    vec![Finding::new("source-silent", "many", severity, sentence, CHECK_ALL)]
}

/// The newest sample and that of ten seconds before.
struct Recent<'a> {
    now: &'a Sample,
    before: &'a Sample,
}

impl Recent<'_> {
    /// Returns the last ten seconds; `None`: they are too short to say anything.
    fn of<'a>(window: &'a Window, now: &'a Sample) -> Option<Recent<'a>> {
        let before = window.before(RECENT)?;
        let recent = Recent { now, before };
        (!recent.is_short(RECENT_MIN)).then_some(recent)
    }

    fn is_short(&self, least: Span) -> bool {
        self.now.at.since(self.before.at) < least
    }

    fn grown(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        of(self.now).saturating_sub(of(self.before))
    }

    fn seconds(&self) -> u64 {
        (self.now.at.since(self.before.at).as_ns() + 500_000_000) / 1_000_000_000
    }

    /// Returns the growth in a second of the value of an own rule.
    fn rate(&self, number: usize) -> Option<f64> {
        let grown = self.now.own.get(number)? - self.before.own.get(number)?;
        Some(grown / (self.now.at.since(self.before.at).as_ns() as f64 * 1e-9))
    }

    fn incomplete_percent(&self) -> Option<f64> {
        share(self.grown(|of| of.incomplete), self.grown(|of| of.events))
    }

    fn events_words(&self, percent: f64) -> String {
        format!("{} % of the events of the last {} s", digits(percent), self.seconds())
    }

    /// Returns the clause on the events that lack a packet; empty: none does.
    fn lacking(&self) -> String {
        match self.incomplete_percent() {
            Some(percent) if percent > 0.0 => {
                format!("; {} lack a packet", self.events_words(percent))
            }
            _ => String::new(),
        }
    }
}

/// Returns a part of a whole \[%\]; `None`: the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

fn severe(is_alarm: bool) -> Severity {
    if is_alarm { Severity::Alarm } else { Severity::Warning }
}

/// Returns the severity of a value above the limit of a warning, or of an alarm.
fn above(value: f64, [warning, alarm]: [f64; 2]) -> Option<Severity> {
    match value {
        _ if value > alarm => Some(Severity::Alarm),
        _ if value > warning => Some(Severity::Warning),
        _ => None,
    }
}

/// Returns a number with the digits that a person reads.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns a time in words: `12 s`, `5 min`.
fn seconds(span: Span) -> String {
    match span.as_ns() / 1_000_000_000 {
        s if s < 120 => format!("{s} s"),
        s if s < 7_200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3_600),
    }
}

/// Returns the clause on a run without a finding: what the last seconds were.
pub fn normal(window: &Window) -> String {
    let Some(now) = window.now() else { return "the run has just begun".to_owned() };
    let sources = now.sources.iter().filter(|source| source.packets > 0).count();
    let have = if sources == 1 { "source has" } else { "sources have" };
    let Some(recent) = Recent::of(window, now) else {
        return format!("{sources} {have} sent so far; the run has just begun");
    };
    format!(
        "{sources} {have} sent; in the last {} s {} events, {} of them incomplete, and {} packets \
         lost",
        recent.seconds(),
        recent.grown(|of| of.events),
        recent.grown(|of| of.incomplete),
        recent.grown(|of| of.lost)
    )
}
