//! Changes that are reported: sources that lag, keys that may be off by one, memory that is too
//! small; and the summary of all sources at the end.

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::Builder;
use super::config::{Expectation, Mode};
use super::members::Member;
use super::reports::{Ended, Report, Said};
use super::summary::{ExpectedBy, SourceState, SourceSummary};

/// An event that waits longer than this many latenesses waits for a source that lags.
const LAG_LATENESSES: u64 = 10;
/// First keys that differ by at most this much may be a trigger number that is off.
const OFF_BY_MAX: u64 = 4;
/// First packets that are nearer in time than this share of a period are of one trigger.
const OFF_BY_SHARE: u64 = 8;
/// Time between two measurements of the rate.
const RATE_PERIOD: Span = Span::from_ms(1000);

/// The rate of stored bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rate {
    since: Moment,
    bytes_before: u64,
    bytes: u64,
    said: bool,
}

impl Rate {
    /// Adds the bytes of a packet and its rows.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Builder {
    /// Returns the messages to the user that are due at `now`: each once, and at most one a second
    /// of each kind.
    pub fn reports(&mut self, now: Moment) -> impl Iterator<Item = Said> + '_ {
        std::iter::from_fn(move || self.watch.reports.next(now, Ended::No))
    }

    /// Returns the messages that are left at the end of the run.
    pub fn last_reports(&mut self) -> impl Iterator<Item = Said> + '_ {
        let now = self.time.now;
        std::iter::from_fn(move || self.watch.reports.next(now, Ended::Yes))
    }

    /// Returns the summary of each source, by number.
    #[must_use]
    pub fn summary(&self) -> Vec<SourceSummary> {
        self.members.iter().map(|member| self.summarize(member)).collect()
    }

    /// Returns the labels of the sources that events do not wait for, because they are silent.
    pub fn given_up(&self) -> impl Iterator<Item = &str> {
        let is_it = |state| matches!(state, SourceState::Idle | SourceState::Dead);
        let members = self.members.iter().filter(move |member| is_it(self.state_of(member)));
        members.map(|member| member.label.as_str())
    }

    /// Returns the state of a source; one that events have not waited for may be silent, too.
    fn state_of(&self, member: &Member) -> SourceState {
        let silent = self.time.activity.since(member.taken) >= self.config.lag_max;
        match member.state {
            SourceState::Live if silent && self.config.mode != Mode::Packet => SourceState::Idle,
            state => state,
        }
    }

    fn summarize(&self, member: &Member) -> SourceSummary {
        let expected_by = match &self.config.expectation {
            Expectation::Joined => ExpectedBy::Joining,
            Expectation::Count(_) => ExpectedBy::Count,
            Expectation::Sources(_) if member.required => ExpectedBy::Name,
            Expectation::Sources(_) => ExpectedBy::Nobody,
        };
        let alone = self.generations.count() > 1
            && member.newest().is_some_and(|newest| {
                self.generations.sources(newest.generation) == 1 && self.members.count() > 1
            });
        SourceSummary {
            label: member.label.clone(),
            state: self.state_of(member),
            expected_by,
            first: member.first.map(|first| self.event_key(first.position)),
            last: member.newest().map(|newest| self.event_key(newest)),
            fragments: member.fragments(),
            on_time: member.counts.on_time,
            late: member.counts.late,
            proven_absent: member.counts.proven_absent,
            lost: member.counts.lost,
            missing: member.counts.missing,
            alone,
        }
    }

    /// Reports the source that came last if the closed event waited long for it.
    pub(super) fn watch_lag(&mut self, slot: u32) {
        let event = self.open.slab.event(slot);
        let age = self.time.now.since(event.opened);
        if age.as_ns() < self.time.lateness.as_ns() * LAG_LATENESSES || self.keys_are_own() {
            return;
        }
        let (Some(&first), Some(&last)) = (event.sources.first(), event.sources.last()) else {
            return;
        };
        let by = event.last.since(event.first);
        let source = self.members.know(last);
        if first == last || source.behind_said || by.as_ns() * 2 < age.as_ns() {
            return;
        }
        source.behind_said = true;
        let source = source.label.clone();
        let other = self.members.label(first).to_owned();
        self.watch.reports.say(Report::Behind { source, other, by });
    }

    /// Compares a source's first key with those of the others, at its second key, when its period
    /// is known.
    pub(super) fn watch_first_keys(&mut self, number: u32, newest: super::Position) {
        let member = self.members.know(number);
        let Some(first) = member.first.filter(|first| first.position != newest) else { return };
        if std::mem::replace(&mut member.first_checked, true) {
            return;
        }
        let keys = newest.ordinal.wrapping_sub(first.position.ordinal);
        if newest.generation != first.position.generation || keys == 0 || self.keys_are_own() {
            return;
        }
        let period = self.time.now.since(first.time).as_ns() / keys;
        let (time, position) = (first.time, first.position);
        let source = self.members.label(number).to_owned();
        // The second one of two sources reports it.
        let looked_at = self.members.iter().filter(|other| other.first_checked);
        let others = looked_at.filter_map(|other| Some((other, other.first?)));
        let found = others.filter(|(_, other)| {
            let apart = time.since(other.time).as_ns().max(other.time.since(time).as_ns());
            let keys = position.ordinal.abs_diff(other.position.ordinal);
            position.generation == other.position.generation
                && (1..=OFF_BY_MAX).contains(&keys)
                && apart.saturating_mul(OFF_BY_SHARE) < period
        });
        let found = found.map(|(other, first)| (other.label.clone(), first)).next();
        let Some((other, other_first)) = found else { return };
        let apart = time.since(other_first.time);
        let apart = apart.max(other_first.time.since(time));
        let key = self.anchor.key(position.ordinal);
        let other_key = self.anchor.key(other_first.position.ordinal);
        self.watch.reports.say(Report::OffByOne { source, key, other, other_key, apart });
    }

    /// Reports once when memory is too small for the time-out at the measured rate.
    pub(super) fn watch_rate(&mut self) {
        let passed = self.time.now.since(self.watch.rate.since);
        if passed < RATE_PERIOD || self.watch.rate.said || self.config.mode == Mode::Packet {
            return;
        }
        let bytes = self.watch.rate.bytes - self.watch.rate.bytes_before;
        let first = self.watch.rate.since == Moment::default();
        (self.watch.rate.since, self.watch.rate.bytes_before) =
            (self.time.now, self.watch.rate.bytes);
        if first {
            return;
        }
        let per_second =
            (u128::from(bytes) * 1_000_000_000 / u128::from(passed.as_ns().max(1))) as u64;
        let wait = self.config.time_out;
        let waiting = u128::from(per_second) * u128::from(wait.as_ns()) / 1_000_000_000;
        let wanted = u64::try_from(waiting.saturating_mul(2)).unwrap_or(u64::MAX);
        if wanted > self.config.bytes_open_max {
            self.watch.rate.said = true;
            let bytes_max = wanted.checked_next_power_of_two().unwrap_or(wanted);
            let report = Report::Memory { bytes_per_second: per_second, wait, bytes_max };
            self.watch.reports.say(report);
        }
    }
}
