//! The alarms of a run and their states.
//!
//! ```text
//!   a finding      ─▶ active ── gone for 5 s ─▶ cleared ── acknowledged ─▶ (not listed)
//!   acknowledged   : a person has seen it; one that gets worse needs that again
//!   shelved        : it does not count, for a stated time
//! ```
//!
//! The states are those of ISA 18.2 and EEMUA 191 that an acquisition needs.

use std::collections::BTreeMap;

use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::Severity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::finding::Finding;
use crate::control::Refused;

/// The time for which a finding must be gone, so that an alarm does not chatter.
const CLEAR: Span = Span::from_ms(5_000);
/// The time after which a verdict is not one of now.
const UNKNOWN: Span = Span::from_ms(15_000);
/// Most alarms of a run at a time.
const ALARMS_MAX: usize = 500;
/// The longest time for which an alarm can be shelved \[min\].
const SHELVED_MAX: u64 = 24 * 60;

/// A step in the life of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is raised.
    Raised,
    /// A warning became an alarm.
    Worse,
    /// It is gone.
    Cleared,
    /// A person has seen it.
    Acknowledged,
    /// It does not count for a time.
    Shelved,
    /// It counts again.
    Unshelved,
    /// The run ended while it was active.
    Ended,
}

/// A change of an alarm: a line of `alarms.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct AlarmChange {
    /// Its time \[ns since 1970\].
    pub at_ns: u64,
    /// The step in its life.
    pub change: Change,
    /// The alarm's name.
    pub name: String,
    /// Its importance.
    pub severity: Severity,
    /// The state that is not normal, in a clause.
    pub sentence: String,
    /// Advice for the person who sees it.
    pub advice: String,
}

#[derive(Debug)]
struct Alarm {
    finding: Finding,
    since: Moment,
    /// The last time at which it was found.
    seen: Moment,
    cleared: Option<Moment>,
    is_acknowledged: bool,
    shelved_until: Option<Moment>,
}

impl Alarm {
    fn counts(&self) -> bool {
        self.cleared.is_none() && self.shelved_until.is_none()
    }

    fn document(&self, name: &str) -> Value {
        json!({
            "name": name,
            "rule": self.finding.rule,
            "about": self.finding.about,
            "severity": self.finding.severity,
            "state": if self.cleared.is_none() { "active" } else { "cleared" },
            "acknowledged": self.is_acknowledged,
            "shelved_until_ns": self.shelved_until.map(Moment::as_ns),
            "since_ns": self.since.as_ns(),
            "cleared_ns": self.cleared.map(Moment::as_ns),
            "sentence": self.finding.sentence,
            "advice": self.finding.advice,
        })
    }
}

/// The alarms of a run, by name.
#[derive(Debug, Default)]
pub struct Table {
    alarms: BTreeMap<String, Alarm>,
    /// The sentence of a run without an alarm.
    normal: String,
    /// The time of the last change of the state.
    since: Moment,
    state: Option<Severity>,
    /// The time of the last look at the run; `None`: nobody has looked yet.
    looked: Option<Moment>,
    has_ended: bool,
    /// The changes since they were last taken.
    changes: Vec<AlarmChange>,
}

impl Table {
    /// Takes the findings of now; `normal` is the sentence of a run without one.
    pub fn tick(&mut self, now: Moment, found: Vec<Finding>, normal: String) {
        if self.since == Moment::default() {
            self.since = now;
        }
        self.normal = normal;
        self.look(now);
        for finding in found {
            self.found(now, finding);
        }
        self.expire(now);
        let gone = |alarm: &Alarm| alarm.cleared.is_none() && now.since(alarm.seen) >= CLEAR;
        self.each(now, Change::Cleared, |alarm| {
            let is_gone = gone(alarm);
            if is_gone {
                alarm.cleared = Some(now);
            }
            is_gone
        });
        let stays = |alarm: &Alarm| {
            alarm.cleared.is_none() || !alarm.is_acknowledged || alarm.shelved_until.is_some()
        };
        self.alarms.retain(|_, alarm| stays(alarm));
        self.settle(now);
    }

    /// Notes that the run was looked at.
    pub fn look(&mut self, now: Moment) {
        self.looked = Some(now);
    }

    fn found(&mut self, now: Moment, finding: Finding) {
        let name = finding.name();
        let is_full = self.alarms.len() >= ALARMS_MAX;
        match self.alarms.get_mut(&name) {
            Some(alarm) if alarm.cleared.is_none() => {
                let is_worse = finding.severity > alarm.finding.severity;
                (alarm.finding, alarm.seen) = (finding, now);
                if is_worse {
                    alarm.is_acknowledged = false;
                    self.note(now, Change::Worse, &name);
                }
            }
            Some(alarm) => {
                let shelved_until = alarm.shelved_until;
                *alarm = Alarm { shelved_until, ..raised(finding, now) };
                self.note(now, Change::Raised, &name);
            }
            None if is_full => {}
            None => {
                self.alarms.insert(name.clone(), raised(finding, now));
                self.note(now, Change::Raised, &name);
            }
        }
    }

    /// Ends the shelving of alarms whose time is over.
    fn expire(&mut self, now: Moment) {
        self.each(now, Change::Unshelved, |alarm| {
            let is_over = alarm.shelved_until.is_some_and(|until| until <= now);
            if is_over {
                alarm.shelved_until = None;
            }
            is_over
        });
    }

    /// Notes a change of the alarms that `changes` changed.
    fn each(&mut self, now: Moment, change: Change, mut changes: impl FnMut(&mut Alarm) -> bool) {
        let changed: Vec<String> = self
            .alarms
            .iter_mut()
            .filter_map(|(name, alarm)| changes(alarm).then(|| name.clone()))
            .collect();
        changed.iter().for_each(|name| self.note(now, change, name));
    }

    /// Marks an alarm as seen by a person.
    ///
    /// # Errors
    /// The run does not have this alarm now.
    pub fn acknowledge(&mut self, name: &str, now: Moment) -> Result<(), Refused> {
        let alarm = self.get(name)?;
        if !alarm.is_acknowledged {
            alarm.is_acknowledged = true;
            self.note(now, Change::Acknowledged, name);
        }
        Ok(())
    }

    /// Lets an alarm not count for some minutes.
    ///
    /// # Errors
    /// The run does not have this alarm now, or the time is out of range.
    pub fn shelve(&mut self, name: &str, minutes: u64, now: Moment) -> Result<(), Refused> {
        if !(1..=SHELVED_MAX).contains(&minutes) {
            let text = format!("an alarm can be shelved for 1 to {SHELVED_MAX} minutes.");
            return Err(Refused::new(text));
        }
        self.get(name)?.shelved_until = Some(now + Span::from_ms(minutes * 60_000));
        self.note(now, Change::Shelved, name);
        self.settle(now);
        Ok(())
    }

    /// Lets a shelved alarm count again.
    ///
    /// # Errors
    /// The run does not have this alarm now.
    pub fn unshelve(&mut self, name: &str, now: Moment) -> Result<(), Refused> {
        if self.get(name)?.shelved_until.take().is_some() {
            self.note(now, Change::Unshelved, name);
        }
        self.settle(now);
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<&mut Alarm, Refused> {
        self.alarms
            .get_mut(name)
            .ok_or_else(|| Refused::new(format!("the run has no alarm named `{name}` now.")))
    }

    /// Ends the run: active alarms stay so.
    pub fn end(&mut self, now: Moment) {
        self.has_ended = true;
        self.each(now, Change::Ended, |alarm| alarm.cleared.is_none());
    }

    /// Takes the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<AlarmChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the importance of the worst alarm that counts; `None`: none does.
    pub fn state(&self) -> Option<Severity> {
        self.state
    }

    /// Returns [`Self::document`], whose state is `unknown` where nobody has looked for long: an
    /// old verdict is not one of now.
    pub fn document_at(&self, now: Moment) -> Value {
        let mut document = self.document();
        let silence = self.looked.map(|looked| now.since(looked));
        if !self.has_ended && silence.is_none_or(|silence| silence > UNKNOWN) {
            document["state"] = "unknown".into();
            document["sentence"] = match silence {
                None => "nobody has judged the health of this run yet".to_owned(),
                Some(silence) => format!(
                    "nobody has judged the health of this run for {} s",
                    silence.as_ns() / 1_000_000_000
                ),
            }
            .into();
        }
        document
    }

    /// Returns the state with its sentence and all alarms.
    pub fn document(&self) -> Value {
        let worst = self.worst();
        let others = self.alarms.values().filter(|alarm| alarm.counts()).count().saturating_sub(1);
        let sentence = match worst {
            None => self.normal.clone(),
            Some(alarm) if others == 0 => alarm.finding.sentence.clone(),
            Some(alarm) => format!("{} (and {others} more)", alarm.finding.sentence),
        };
        let alarms = self.alarms.iter().map(|(name, alarm)| alarm.document(name));
        json!({
            "state": word(self.state),
            "sentence": sentence,
            "since_ns": self.since.as_ns(),
            "advice": worst.map_or("", |alarm| alarm.finding.advice.as_str()),
            "alarms": alarms.collect::<Vec<_>>(),
        })
    }

    /// Returns the worst alarm that counts; of two alike, the older.
    fn worst(&self) -> Option<&Alarm> {
        let counting = self.alarms.values().filter(|alarm| alarm.counts());
        counting.max_by_key(|alarm| (alarm.finding.severity, std::cmp::Reverse(alarm.since)))
    }

    fn settle(&mut self, now: Moment) {
        let state = self.worst().map(|alarm| alarm.finding.severity);
        if state != self.state {
            (self.state, self.since) = (state, now);
        }
    }

    fn note(&mut self, now: Moment, change: Change, name: &str) {
        let Some(alarm) = self.alarms.get(name) else { return };
        let Finding { severity, sentence, advice, .. } = &alarm.finding;
        match change {
            Change::Raised | Change::Worse => tracing::warn!(alarm = name, "{sentence}"),
            change => tracing::info!(alarm = name, ?change, "{sentence}"),
        }
        self.changes.push(AlarmChange {
            at_ns: now.as_ns(),
            change,
            name: name.to_owned(),
            severity: *severity,
            sentence: sentence.clone(),
            advice: advice.clone(),
        });
    }
}

fn raised(finding: Finding, now: Moment) -> Alarm {
    Alarm {
        finding,
        since: now,
        seen: now,
        cleared: None,
        is_acknowledged: false,
        shelved_until: None,
    }
}

/// Returns the word for the worst alarm of a run: `ok`, `warning` or `alarm`.
pub fn word(state: Option<Severity>) -> &'static str {
    match state {
        None => "ok",
        Some(Severity::Warning) => "warning",
        Some(Severity::Alarm) => "alarm",
    }
}
