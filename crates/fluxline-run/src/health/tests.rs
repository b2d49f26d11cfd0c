//! Rules and alarms over made samples: no clock, no threads.

use fluxline_core::Moment;
use fluxline_daq::experiment::{Experiment, Severity};

use super::rules::{self, Rules};
use super::sample::{Sample, SourceSample, Window};
use crate::alarms::{AlarmState as Change, Finding, Table};
use crate::control::RunState;

const SECOND: u64 = 1_000_000_000;

/// A run of boards that send 100 packets a second, of which events are made.
struct Run {
    window: Window,
    rules: Rules,
    table: Table,
    boards: Vec<SourceSample>,
    now: Sample,
    changes: Vec<(Change, String)>,
}

impl Run {
    fn new(keys: &str, boards: usize) -> Run {
        let text = format!("[[source]]\nname = \"a\"\nformat = \"gem\"\n[source.emulator]\n{keys}");
        let experiment = Experiment::parse("test.toml", &text).unwrap();
        let board = |number| SourceSample {
            label: format!("board {number}"),
            is_live: true,
            ..SourceSample::default()
        };
        let at = Moment::from_ns(1_000 * SECOND);
        Run {
            window: Window::default(),
            rules: Rules::of(&experiment, false),
            table: Table::default(),
            boards: (0..boards).map(board).collect(),
            now: Sample { at, free_bytes: Some(1 << 40), ..Sample::default() },
            changes: Vec::new(),
        }
    }

    /// Lets a second go by, in which these boards send.
    fn second(&mut self, sending: &[usize], change: impl FnOnce(&mut Sample)) {
        let now = &mut self.now;
        now.at = Moment::from_ns(now.at.as_ns() + SECOND);
        now.state = RunState::Running;
        for board in sending {
            let board = &mut self.boards[*board];
            board.first_ns = if board.packets == 0 { now.at.as_ns() } else { board.first_ns };
            board.last_ns = now.at.as_ns();
            board.packets += 100;
            now.packets += 100;
        }
        now.events += 100;
        now.dealt_with += 100;
        if sending.len() < self.boards.len() {
            now.incomplete += 100;
        }
        now.dropped.resize(super::sample::dropped_rows().count(), 0);
        change(now);
        now.sources = self.boards.iter().filter(|board| board.packets > 0).cloned().collect();
        self.window.push(now.clone());
        let found = self.rules.find(&self.window, now.at);
        self.table.tick(now.at, found, rules::normal(&self.window));
        let changes = self.table.take_changes();
        self.changes.extend(changes.into_iter().map(|change| (change.change, change.name)));
    }

    fn seconds(&mut self, count: usize, sending: &[usize]) {
        (0..count).for_each(|_| self.second(sending, |_| ()));
    }

    fn said(&self) -> (String, String) {
        let document = self.table.document();
        let text = |name: &str| document[name].as_str().unwrap().to_owned();
        (text("state"), text("sentence"))
    }
}

#[test]
fn a_dead_required_board_is_one_alarm_although_all_events_lack_it() {
    let mut run = Run::new("[events]\nrequire = [\"board 0\", \"board 1\"]", 2);
    run.seconds(12, &[0, 1]);
    assert_eq!(run.said().0, "ok");
    run.seconds(12, &[0]);
    let (state, sentence) = run.said();
    assert_eq!(state, "alarm", "{sentence}");
    assert!(sentence.contains("required source board 1 has been silent for 12 s"), "{sentence}");
    assert!(sentence.contains("100 % of the events of the last 10 s lack a packet"), "{sentence}");
    assert_eq!(run.changes, [(Change::Raised, "source-silent/board 1".to_owned())]);
    run.seconds(30, &[0, 1]);
    assert_eq!(run.said().0, "ok");
    assert!(run.changes.contains(&(Change::Cleared, "source-silent/board 1".to_owned())));
}

#[test]
fn a_required_board_that_never_came_is_an_alarm() {
    let mut run = Run::new("[events]\nrequire = [\"board 0\", \"board 1\"]", 2);
    run.seconds(2, &[0]);
    assert_eq!(run.said().0, "ok", "it may still come");
    run.seconds(3, &[0]);
    let (state, sentence) = run.said();
    assert_eq!(state, "alarm");
    assert!(sentence.contains("required source board 1 has sent nothing"), "{sentence}");
}

#[test]
fn a_pause_of_all_boards_is_one_finding_and_not_one_for_each() {
    let mut run = Run::new("", 20);
    let all: Vec<usize> = (0..20).collect();
    run.seconds(12, &all);
    run.seconds(6, &[]);
    let (state, sentence) = run.said();
    assert_eq!(state, "warning", "nothing is required");
    assert!(sentence.contains("none of 20 sources has sent for 6 s"), "{sentence}");
    let raised = run.changes.iter().filter(|change| change.0 == Change::Raised);
    assert_eq!(raised.map(|change| change.1.as_str()).collect::<Vec<_>>(), ["source-silent"]);
}

#[test]
fn many_boards_behind_one_switch_are_one_finding() {
    let mut run = Run::new("", 20);
    let all: Vec<usize> = (0..20).collect();
    run.seconds(12, &all);
    run.seconds(6, &[0, 1]);
    let (_, sentence) = run.said();
    assert!(
        sentence.contains("18 sources are silent (board 2, board 3, board 4, ..)"),
        "{sentence}"
    );
}

#[test]
fn incompleteness_is_that_of_the_last_seconds_and_not_of_the_whole_run() {
    let mut run = Run::new("", 1);
    run.seconds(1_000, &[0]);
    (0..11).for_each(|_| run.second(&[0], |now| now.incomplete += 60));
    let (state, sentence) = run.said();
    assert_eq!(state, "alarm", "{sentence}");
    assert!(sentence.contains("60 % of the events of the last 10 s"), "{sentence}");
}

#[test]
fn losses_explain_the_events_that_lack_the_lost_packets() {
    let mut run = Run::new("", 1);
    (0..12).for_each(|_| {
        run.second(&[0], |now| (now.lost, now.incomplete) = (now.lost + 5, now.incomplete + 5));
    });
    let (state, sentence) = run.said();
    assert_eq!(state, "warning");
    assert!(
        sentence.contains("4.8 % of the packets") && sentence.contains("50 of 1050"),
        "{sentence}"
    );
    assert!(!sentence.contains("more"), "one cause, one alarm: {sentence}");
}

#[test]
fn disk_ring_and_recorder_have_their_limits() {
    let mut run = Run::new("", 1);
    let slow = |now: &mut Sample| {
        now.recorded_bytes += 1 << 20;
        now.free_bytes = Some((20 * 60) << 20);
    };
    (0..12).for_each(|_| run.second(&[0], slow));
    assert!(run.said().1.contains("the disk is full in 20 min"), "{:?}", run.said());
    let mut run = Run::new("", 1);
    (0..2).for_each(|_| run.second(&[0], |now| now.ring_percent = 99));
    run.second(&[0], |now| now.ring_percent = 10);
    assert_eq!(run.said().0, "ok", "a short peak is not an alarm");
    (0..4).for_each(|_| run.second(&[0], |now| now.ring_percent = 90));
    assert_eq!(run.said().0, "warning");
    let mut run = Run::new("", 1);
    run.seconds(12, &[0]);
    (0..12).for_each(|_| run.second(&[0], |now| now.dealt_with -= 100));
    assert!(run.said().1.contains("nothing was written for 10 s"), "{:?}", run.said());
}

#[test]
fn data_that_is_not_in_the_files_is_named_with_its_place() {
    let mut run = Run::new("", 1);
    let failed = super::sample::dropped_rows().position(|row| row.name() == "write_failed");
    run.seconds(12, &[0]);
    run.second(&[0], |now| now.dropped[failed.unwrap()] += 7);
    let (state, sentence) = run.said();
    assert_eq!(state, "alarm");
    assert!(sentence.contains("7 received packets") && sentence.contains("write failed"));
    run.seconds(30, &[0]);
    assert_eq!(run.said().0, "ok");
}

#[test]
fn a_readout_that_does_not_answer_is_no_silent_board() {
    let mut run = Run::new("", 2);
    run.seconds(12, &[0, 1]);
    let late = Moment::from_ns(run.now.at.as_ns() + 15 * SECOND);
    let found = run.rules.find(&run.window, late);
    let names: Vec<String> = found.iter().map(Finding::name).collect();
    assert_eq!(names, ["readout-stalled"]);
}

#[test]
fn rules_of_the_experiment_hold_for_their_time_and_take_rates() {
    let rule = "[[alarm]]\nname = \"slow\"\nvalue = \"rate(events)\"\nbelow = 90\nhold-s = 3\n\
                severity = \"alarm\"\nadvice = \"ask the beam\"";
    let mut run = Run::new(rule, 1);
    // The test computes the values of own rules as `Sample::of` does from a ledger.
    let with = |grown: f64| {
        move |now: &mut Sample| {
            let before = now.own.first().copied().unwrap_or(0.0);
            now.own = vec![before + grown];
        }
    };
    (0..12).for_each(|_| run.second(&[0], with(100.0)));
    assert_eq!(run.said().0, "ok");
    (0..3).for_each(|_| run.second(&[0], with(10.0)));
    assert_eq!(run.said().0, "ok", "it must hold");
    (0..9).for_each(|_| run.second(&[0], with(10.0)));
    let (state, sentence) = run.said();
    assert_eq!(state, "alarm");
    assert!(sentence.starts_with("slow: rate(events) is 1"), "{sentence}");
    assert_eq!(run.table.document()["advice"], "ask the beam");
}

#[test]
fn a_wrong_rule_is_a_sentence_with_the_nearest_name() {
    let of = |keys: &str| {
        let text = format!(
            "[[source]]\nname = \"a\"\nformat = \"gem\"\n[source.emulator]\n[[alarm]]\n\
             name = \"x\"\n{keys}"
        );
        Experiment::parse("test.toml", &text).unwrap_err().to_string()
    };
    let said = of("value = \"rate(input.rejectd)\"\nabove = 1");
    assert!(said.contains("did you mean `input.rejected`?"), "{said}");
    assert!(of("value = \"events\"").contains("needs one of `above` and `below`"));
    assert!(of("value = \"events\"\nabove = 1\nhold-s = -1").contains("hold-s"));
    assert!(of("value = \"events\"\nstale-s = 1").contains("is for a slow control value"));
    assert!(of("value = \"slow:hv/v\"\nabove = 1").contains("no [slow-control] table"));
    let slow = |keys: &str| of(&format!("value = \"slow:hv/v\"\n{keys}\n[slow-control]"));
    assert!(slow("stale-s = 0").contains("write 0.1 to 86400"));
    assert!(slow("stale-s = 5\nabove = 1").contains("needs one of"));

    assert!(of("value = \"events\"\nabove = 1\n[slow-control]\nudp = \"lab:x\"").contains("lab:x"));
}

#[test]
fn a_slow_control_value_beyond_its_limit_or_not_sent_is_an_alarm_and_an_unknown_one_is_not() {
    let rules = "[slow-control]\n\
                 [[alarm]]\nname = \"trip\"\nvalue = \"slow:hv/v\"\nbelow = 900.0\n\
                 [[alarm]]\nname = \"mute\"\nvalue = \"slow:hv/v\"\nstale-s = 10\n";
    let mut run = Run::new(rules, 1);
    let with =
        |volts: f64, silence: f64| move |sample: &mut Sample| sample.own = vec![volts, silence];
    (0..12).for_each(|_| run.second(&[0], with(f64::NAN, 1.0)));
    assert_eq!(run.said().0, "ok", "never sent, and not silent for long");
    run.second(&[0], with(850.0, 1.0));
    assert_eq!(run.said(), ("warning".to_owned(), "trip: slow:hv/v is 850, below 900".to_owned()));
    (0..12).for_each(|_| run.second(&[0], with(1000.0, 12.0)));
    let sentence = "mute: slow:hv/v has not been sent for 12 s";
    assert_eq!(run.said(), ("warning".to_owned(), sentence.to_owned()));
}

fn finding(severity: Severity) -> Finding {
    Finding {
        rule: "rule".into(),
        about: String::new(),
        severity,
        sentence: "it is so".into(),
        advice: String::new(),
    }
}

#[test]
fn an_acknowledged_alarm_that_gets_worse_must_be_seen_again() {
    let (mut table, at) = (Table::default(), |s: u64| Moment::from_ns(s * SECOND));
    table.tick(at(1), vec![finding(Severity::Warning)], String::new());
    table.acknowledge("rule", at(2)).unwrap();
    assert_eq!(table.document()["alarms"][0]["acknowledged"], true);
    table.tick(at(3), vec![finding(Severity::Alarm)], String::new());
    assert_eq!(table.document()["alarms"][0]["acknowledged"], false);
    assert_eq!(table.document()["state"], "alarm");
    assert!(table.acknowledge("none", at(4)).unwrap_err().to_string().contains("`none`"));
}

#[test]
fn a_verdict_that_nobody_renews_is_not_one_of_now() {
    let (mut table, at) = (Table::default(), |s: u64| Moment::from_ns(s * SECOND));
    let state = |table: &Table, s: u64| table.document_at(at(s))["state"].clone();
    assert_eq!(state(&table, 1), "unknown", "nobody has looked yet");
    table.tick(at(1), Vec::new(), "normal".to_owned());
    assert_eq!((state(&table, 2), state(&table, 17)), ("ok".into(), "unknown".into()));
    table.look(at(18));
    assert_eq!(state(&table, 19), "ok");
    table.end(at(20));
    assert_eq!(state(&table, 100), "ok", "the last one before the end");
}

#[test]
fn an_alarm_that_comes_and_goes_is_raised_once_and_stays_until_it_is_seen() {
    let (mut table, at) = (Table::default(), |s: u64| Moment::from_ns(s * SECOND));
    for second in 1..60 {
        let found = if second % 3 == 0 { vec![finding(Severity::Alarm)] } else { Vec::new() };
        table.tick(at(second), found, String::new());
    }
    let raised = |table: &mut Table| {
        table.take_changes().iter().filter(|one| one.change == Change::Raised).count()
    };
    assert_eq!(raised(&mut table), 1);
    (60..70).for_each(|second| table.tick(at(second), Vec::new(), String::new()));
    assert_eq!(table.document()["alarms"][0]["state"], "cleared");
    assert_eq!(table.document()["state"], "ok");
    table.acknowledge("rule", at(70)).unwrap();
    table.tick(at(71), Vec::new(), String::new());
    assert_eq!(table.document()["alarms"].as_array().unwrap().len(), 0);
}

#[test]
fn a_shelved_alarm_does_not_count_until_its_time_is_over() {
    let (mut table, at) = (Table::default(), |s: u64| Moment::from_ns(s * SECOND));
    let alarm = || vec![finding(Severity::Alarm)];
    table.tick(at(1), alarm(), String::new());
    assert!(table.shelve("rule", 0, at(1)).is_err() && table.shelve("rule", 9_999, at(1)).is_err());
    table.shelve("rule", 1, at(2)).unwrap();
    assert_eq!(table.document()["state"], "ok");
    table.tick(at(61), alarm(), String::new());
    assert_eq!(table.document()["state"], "ok");
    table.tick(at(62), alarm(), String::new());
    assert_eq!(table.document()["state"], "alarm");
}
