//! The laws of a campaign: a run compared with what its boards really sent.
//!
//! Of the program, the judge takes the ledger, the sentences and the files. It makes the packets of
//! the boards itself (`truth.rs`), and knows which nodes died.

use std::collections::{HashMap, HashSet};

use fluxline_daq::builder::WindowClock;
use fluxline_daq::event::EventStatus;
use fluxline_daq::experiment::Build;
use fluxline_daq::ledger::Ledger;
use fluxline_daq::record::ReadReport;
use fluxline_run::Verdict;

use super::case::{Case, NodeFault};
use super::disk::DiskFault;
use super::found::FoundEvent;
use super::trial::{Broken, Trial};
use super::truth::{Sent, SourceTruth};

/// The harm that the faults of a case may do.
pub struct Harm {
    /// Sources of which a node died, or was cut off: the source's own, or its readout.
    pub sources: HashSet<String>,
    /// Names of all nodes that died, or may count as dead.
    pub nodes: Vec<String>,
    /// A builder died, or was cut off.
    pub has_builder: bool,
    /// A network may give up a node that lives.
    pub may_part: bool,
    /// Packets may end before their readout, which does not know of them.
    pub is_unheard: bool,
}

impl Harm {
    /// Returns the harm of a case to the sources of its experiment.
    pub fn of(case: &Case, trial: &Trial) -> Harm {
        let experiment = &trial.experiment;
        let faults = case.node_faults();
        let nodes: Vec<String> = faults.iter().map(|fault| fault.node.clone()).collect();
        let graph = experiment.graph.clone().unwrap_or_default();
        let mut sources = HashSet::new();
        for (number, of) in experiment.sources_by_readout(&graph).into_iter().enumerate() {
            let is_dead = nodes.contains(&format!("readout-{number}"));
            let of = of
                .into_iter()
                .filter(|source| is_dead || nodes.contains(&format!("sensor-{source}")));
            sources.extend(of.map(|source| experiment.sources[source].name.clone()));
        }
        let has_builder = nodes.iter().any(|node| node.starts_with("builder"));
        // A cut cable breaks a whole ring or grid, and wrong bits may cost a connection. Behind a
        // switch, a sensor without a cable parts from its readout alone.
        let is_switched = !["sci", "atoll"].iter().any(|of| case.network.starts_with(of));
        let is_of_sensor = |fault: &NodeFault| fault.node.starts_with("sensor");
        let parts_others = |fault: &NodeFault| !(is_switched && is_of_sensor(fault));
        let has_cut = faults.iter().any(|of| of.kind != "host" && parts_others(of));
        let may_part = has_cut || case.bits > 1e-8 || case.network.contains("fault=");
        let cuts_readout =
            faults.iter().any(|of| of.kind != "host" && of.node.starts_with("readout"));
        let is_unheard = faults.iter().any(is_of_sensor) || cuts_readout || case.bits > 1e-8;
        Harm { sources, nodes, has_builder, may_part, is_unheard }
    }
}

/// Everything that is known about a run.
pub struct Known<'a> {
    pub case: &'a Case,
    pub trial: &'a Trial,
    pub truth: &'a [SourceTruth],
    pub events: &'a [FoundEvent],
    /// The findings of the reader of the files.
    pub read: &'a ReadReport,
    pub harm: Harm,
}

/// The check of a law.
type Check = fn(&Known<'_>) -> Result<(), String>;

/// Returns the first law that a run broke.
pub fn judge(known: &Known<'_>) -> Option<Broken> {
    let laws: [(&'static str, Check); 14] = [
        ("the ledger closes", ledger_closes),
        ("files have no torn batch", nothing_torn),
        ("memory is within its limit", memory_is_bounded),
        ("no packet is in the files twice", nothing_twice),
        ("each packet in the files was sent", nothing_invented),
        ("the files have what the ledger says", files_have_the_recorded),
        ("each sent packet is in the files or in a named row", nothing_lost),
        ("a builder's death loses nothing that readouts keep", deaths_cost_nothing),
        ("what a builder's death loses is counted to the packet", losses_are_exact),
        ("each count is that of the boards", counts_are_true),
        ("no packet is too late for the window of its arrival", windows_are_whole),
        ("a complete event is complete", complete_is_complete),
        ("an incomplete event lacks a packet", incomplete_is_incomplete),
        ("status and sentence are true", verdict_is_true),
    ];
    laws.into_iter().find_map(|(law, check)| check(known).err().map(|how| Broken { law, how }))
}

impl Known<'_> {
    fn ledger(&self) -> &Ledger {
        &self.trial.report.ledger
    }

    /// Returns the truth of a source.
    fn source(&self, name: &str) -> Option<&SourceTruth> {
        self.truth.iter().find(|of| of.name == name)
    }

    /// Returns the packets of each source in the files.
    fn found(&self) -> HashMap<&str, u64> {
        let mut found = HashMap::new();
        for packet in self.events.iter().flat_map(|event| &event.packets) {
            *found.entry(packet.source.as_str()).or_default() += 1;
        }
        found
    }

    /// Returns true when the counters of boards tell every packet from every other.
    fn has_plain_counters(&self) -> bool {
        self.case.corrupt == 0.0 && self.truth.iter().all(|of| of.restarts == Some(0))
    }

    /// Returns the packets in named rows that are in no file, copies not counted.
    fn in_named_rows(&self) -> u64 {
        let (of, ledger) = (self.ledger().source_totals(), self.ledger());
        let inputs = ledger.input_totals();
        let lost = ledger.edges.as_ref().map_or(0, |edges| edges.lost);
        of.late
            + of.held
            + of.late_dropped
            + of.builder_full
            + of.inconsistent
            + of.write_failed
            + inputs.rejected
            + inputs.truncated
            + inputs.sources_refused
            + lost
    }
}

fn ledger_closes(known: &Known<'_>) -> Result<(), String> {
    match known.ledger().check().into_iter().find(|law| !law.holds()) {
        Some(law) => Err(format!("{}: {} = {}", law.name, law.left, law.right)),
        None => Ok(()),
    }
}

/// The disk fails at a write, not at a cut: what the program wrote in part, it can take back.
fn nothing_torn(known: &Known<'_>) -> Result<(), String> {
    let ReadReport { tails, damages, unreadable, .. } = known.read;
    match (tails.first(), damages.first(), unreadable.first()) {
        (Some(tail), ..) => Err(format!("{} bytes behind the last batch", tail.torn_bytes)),
        (_, Some(damage), _) => Err(format!("byte {}: {}", damage.start, damage.reason)),
        (.., Some(file)) => Err(file.reason.clone()),
        _ => Ok(()),
    }
}

fn memory_is_bounded(known: &Known<'_>) -> Result<(), String> {
    let most = known.ledger().builder.bytes_open_most;
    let limit = known.trial.experiment.events.bytes_max;
    match most > limit {
        true => Err(format!("open events took {most} bytes of {limit}")),
        false => Ok(()),
    }
}

fn nothing_twice(known: &Known<'_>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for event in known.events {
        if let Some(twice) = event.packets.iter().find(|packet| !seen.insert(*packet)) {
            return Err(format!("source `{}`, event {:?}", twice.source, event.key));
        }
    }
    Ok(())
}

fn nothing_invented(known: &Known<'_>) -> Result<(), String> {
    for event in known.events {
        for packet in &event.packets {
            let sent = known.source(&packet.source).and_then(|of| of.sent.get(&packet.bytes));
            let Some(sent) = sent else {
                return Err(format!("source `{}`, event {:?}", packet.source, event.key));
            };
            // The key of a window is a time.
            let has_its_key = known.trial.experiment.events.build == Build::Key;
            let is_of_event =
                !has_its_key || event.key.is_none() || sent.key.is_none() || sent.key == event.key;
            if !is_of_event && known.has_plain_counters() {
                let (own, key) = (sent.key, event.key);
                return Err(format!("a packet with key {own:?} is in event {key:?}"));
            }
        }
    }
    Ok(())
}

fn files_have_the_recorded(known: &Known<'_>) -> Result<(), String> {
    let found: u64 = known.found().values().sum();
    let recorded = known.ledger().source_totals().recorded;
    let headline = known.ledger().headline();
    let says = format!("{recorded} recorded");
    // A batch that the disk did not confirm is in the file, and counts as not written.
    let is_unconfirmed = ["sync", "power"].iter().any(|of| known.case.disk.starts_with(of));
    let unconfirmed = if is_unconfirmed { known.ledger().source_totals().write_failed } else { 0 };
    if found < recorded || found > recorded + unconfirmed {
        return Err(format!("the ledger has {recorded} packets recorded, the files {found}"));
    }
    let received = known.ledger().received();
    if received > 0 && !(headline.contains(&says) && headline.contains(&received.to_string())) {
        return Err(format!("received {received}, recorded {recorded}; the run says: {headline}"));
    }
    Ok(())
}

/// Each packet of a source that nothing harmed is in the files, unless a row of the ledger has it.
fn nothing_lost(known: &Known<'_>) -> Result<(), String> {
    let (found, rows) = (known.found(), known.in_named_rows());
    let is_whole = |of: &&SourceTruth| !known.harm.sources.contains(&of.name);
    let mut missing = 0;
    for of in known.truth.iter().filter(is_whole) {
        let sent = of.sent.values().filter(|sent| !sent.is_damaged).count() as u64;
        let here = found.get(of.name.as_str()).copied().unwrap_or(0);
        missing += sent.saturating_sub(here);
    }
    match missing > rows && !known.harm.may_part {
        true => Err(format!("{missing} packets of living sources are missing, rows have {rows}")),
        false => Ok(()),
    }
}

impl Known<'_> {
    /// Returns true when readouts keep everything until a builder has saved it, and each builder
    /// that died has a successor that lives.
    fn keeps_everything(&self) -> bool {
        // A record has the packets and about as much besides; each builder follows all packets.
        let bytes = |of: &SourceTruth| -> u64 {
            of.sent.iter().map(|(bytes, sent)| sent.datagrams * (bytes.len() as u64 + 200)).sum()
        };
        let sent: u64 = self.truth.iter().map(bytes).sum();
        let builders = self.case.builders;
        let is_dead = |number: u32| self.harm.nodes.contains(&format!("builder-{number}"));
        let succeeds = |number: u32| !is_dead((number + 1) % builders);
        self.case.keep_bytes >= 4 * sent
            && builders > 1
            && (0..builders).filter(|number| is_dead(*number)).all(succeeds)
    }
}

/// Packets that a readout which lives has taken are in the files, whatever builders die.
fn deaths_cost_nothing(known: &Known<'_>) -> Result<(), String> {
    let lost = known.ledger().edges.as_ref().map_or(0, |edges| edges.lost);
    let died = |kind: &str| known.harm.nodes.iter().any(|node| node.starts_with(kind));
    match known.keeps_everything() && !known.harm.may_part && !died("readout") && lost > 0 {
        true => Err(format!("{lost} packets are lost with a node")),
        false => Ok(()),
    }
}

/// The rows have as many packets as were sent and are in no file, no more and no fewer.
fn losses_are_exact(known: &Known<'_>) -> Result<(), String> {
    let (case, harm) = (known.case, &known.harm);
    let is_judged = case.keep_bytes > 0
        && case.duplicate == 0.0
        && case.disk.is_empty()
        && known.has_plain_counters()
        && harm.sources.is_empty()
        && !harm.may_part;
    let sent: u64 = known.truth.iter().map(SourceTruth::datagrams).sum();
    let (found, rows): (u64, u64) = (known.found().values().sum(), known.in_named_rows());
    match is_judged && found + rows != sent {
        true => Err(format!("{sent} were sent, {found} are in files, rows have {rows}")),
        false => Ok(()),
    }
}

/// Compares the rows with the counts of the boards, where nothing harmed a source.
fn counts_are_true(known: &Known<'_>) -> Result<(), String> {
    let harm = &known.harm;
    if !known.has_plain_counters() || harm.may_part || !harm.sources.is_empty() {
        return Ok(());
    }
    let (of, ledger) = (known.ledger().source_totals(), known.ledger());
    let sum = |count: fn(&SourceTruth) -> u64| known.truth.iter().map(count).sum::<u64>();
    let sent = sum(SourceTruth::datagrams);
    let copies = sent - sum(|of| of.sent.len() as u64);
    let dropped = sum(|of| of.dropped.unwrap_or(0));
    let lost_with_a_node = ledger.edges.as_ref().map_or(0, |edges| edges.lost);
    for (name, counted, true_count) in [
        ("received", ledger.received(), sent),
        ("lost", of.lost, dropped),
        ("duplicate", of.duplicate + of.event_duplicate, copies),
        ("rejected", ledger.input_totals().rejected, 0),
        ("too old", of.late + of.held + of.late_dropped, 0),
        ("inconsistent", of.inconsistent, 0),
        ("no room", if known.case.bytes_max > 0 { 0 } else { of.builder_full }, 0),
        ("lost with a node", if harm.has_builder { 0 } else { lost_with_a_node }, 0),
        ("not written", if known.case.disk.is_empty() { of.write_failed } else { 0 }, 0),
    ] {
        if counted != true_count {
            return Err(format!("{name}: the ledger has {counted}, the boards {true_count}"));
        }
    }
    Ok(())
}

/// A builder closes a window when every readout has said that nothing older follows.
fn windows_are_whole(known: &Known<'_>) -> Result<(), String> {
    let events = &known.trial.experiment.events;
    let is_judged = events.build == Build::Window && events.window_clock == WindowClock::Arrival;
    if !is_judged || known.harm.may_part {
        return Ok(());
    }
    let of = known.ledger().source_totals();
    match of.in_late + of.late_dropped {
        0 => Ok(()),
        late => Err(format!("{late} packets came behind the end of their windows")),
    }
}

/// Returns true when all packets of a key are one event.
fn has_global_keys(known: &Known<'_>) -> bool {
    known.trial.experiment.events.build == Build::Key && known.has_keys()
}

impl Known<'_> {
    /// Returns true when the key of a packet alone decides its event.
    fn has_keys(&self) -> bool {
        let restarts = |of: &SourceTruth| of.restarts.is_some_and(|count| count > 0);
        let may_restart = self.case.late_ms > 0 && self.case.restart > 0.0;
        self.case.corrupt == 0.0 && !may_restart && !self.truth.iter().any(restarts)
    }

    /// Returns a source of which an event lacks packets that were made, and their number.
    fn lacks<'a>(&'a self, event: &FoundEvent) -> Option<(&'a SourceTruth, u64)> {
        let key = event.key?;
        let sources = self.truth.iter().filter(|of| !self.harm.sources.contains(&of.name));
        sources
            .filter_map(|of| {
                let made = of.made.get(&key).copied().unwrap_or(0);
                let here = event.packets.iter().filter(|packet| packet.source == of.name).count();
                let lacking = made.saturating_sub(here as u64);
                (lacking > 0).then_some((of, lacking))
            })
            .next()
    }
}

fn complete_is_complete(known: &Known<'_>) -> Result<(), String> {
    let harm = &known.harm;
    if !has_global_keys(known) || harm.may_part || !known.case.disk.is_empty() {
        return Ok(());
    }
    // Events that close before a source begins are complete without it: its late fragments follow,
    // where the builder lives. Sources of captures may begin late.
    if harm.has_builder && known.truth.iter().any(|of| of.dropped.is_none()) {
        return Ok(());
    }
    for event in known.events.iter().filter(|event| event.status == EventStatus::Complete) {
        if let Some((source, lacking)) = known.lacks(event) {
            let (key, name) = (event.key.unwrap_or(0), &source.name);
            return Err(format!("event {key} lacks {lacking} packets of source `{name}`"));
        }
    }
    Ok(())
}

fn incomplete_is_incomplete(known: &Known<'_>) -> Result<(), String> {
    let harm = &known.harm;
    let knows = known.truth.iter().all(|of| of.dropped.is_some());
    if !has_global_keys(known) || !knows || harm.may_part || !harm.sources.is_empty() {
        return Ok(());
    }
    // A builder that dies does not know which of its open events have all packets.
    let is_judged = |event: &&FoundEvent| match event.status {
        EventStatus::Complete => false,
        EventStatus::Stopped => !harm.has_builder,
        EventStatus::Incomplete | EventStatus::Late => true,
    };
    for event in known.events.iter().filter(is_judged) {
        let (key, says, status) = (event.key, &event.missing, event.status.as_str());
        if known.lacks(event).is_none() {
            return Err(format!("event {key:?} is {status} ({says}), and has all packets"));
        }
        let key = key.unwrap_or(0);
        for item in says.split("; ").filter(|item| item.contains('/')) {
            let name = item.split('/').next().unwrap_or_default();
            let Some(of) = known.source(name) else { continue };
            let made = of.made.get(&key).copied().unwrap_or(0);
            let here = event.packets.iter().filter(|packet| packet.source == name).count() as u64;
            if made == here {
                return Err(format!("event {key} says \"{item}\", and has all packets of it"));
            }
        }
    }
    Ok(())
}

fn verdict_is_true(known: &Known<'_>) -> Result<(), String> {
    let report = &known.trial.report;
    let (status, sentence) = (report.verdict.status(), report.verdict.sentence().unwrap_or(""));
    let harm = &known.harm;
    let disk_failed = known.trial.report.document["recorded"]["fault"].is_string();
    if disk_failed != (status == 5) {
        return Err(format!("status {status} although the disk failed = {disk_failed}"));
    }
    if known.case.disk.is_empty() && disk_failed {
        return Err(format!("the disk has no fault, and the run says: {sentence}"));
    }
    let is_of = |sent: &Sent| !sent.is_damaged;
    let sent: usize =
        known.truth.iter().map(|of| of.sent.values().filter(|sent| is_of(sent)).count()).sum();
    let found: u64 = known.found().values().sum();
    if report.verdict == Verdict::Complete && found < sent as u64 && !harm.is_unheard {
        return Err(format!("status 0, and the files have {found} of {sent} packets"));
    }
    let is_well = harm.nodes.is_empty() && !harm.may_part && known.in_named_rows() == 0;
    if is_well && status != 0 && !disk_failed {
        return Err(format!("nothing went wrong, and the run says: {sentence}"));
    }
    // A node that the sentences accuse must have died.
    let notes = report.notes.iter().map(String::as_str).chain([sentence]);
    for words in notes.flat_map(|text| text.split("; ")) {
        let accuses = ["ended before its last record", "is gone ("];
        let accused = accuses.iter().any(|of| words.contains(of));
        let node = words.split_whitespace().find(|word| is_node(word));
        if let Some(node) = node.filter(|_| accused)
            && !harm.may_part
            && !harm.nodes.iter().any(|of| of == node)
        {
            return Err(format!("{node} lived, and the run says: {words}"));
        }
    }
    Ok(())
}

fn is_node(word: &str) -> bool {
    let number = word.strip_prefix("readout-").or_else(|| word.strip_prefix("builder-"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Checks a run after the end of its power: what the disk had confirmed must be there after
/// `recover`.
pub fn survives(known: &Known<'_>) -> Option<Broken> {
    let law = "what the disk confirmed is there after recover";
    let fault = DiskFault::parse(&known.case.disk).ok().flatten()?;
    let DiskFault::Power(_) = fault else { return None };
    super::power::survives(known.trial).err().map(|how| Broken { law, how })
}
