//! The draft as a TOML file: each part with the evidence for it.

use std::fmt::Write;

use fluxline_packet::model::ByteOrder;

use super::{Counter, Draft, Growth, Sample, Word, overlap};

/// Most sizes that are named.
const SIZES_SHOWN_MAX: usize = 5;
/// Constants are cut at multiples of this size \[byte\], as most words are.
const CONSTANT_BYTES: usize = 4;

/// The findings in the packets.
pub(super) struct Findings<'a> {
    pub origin: &'a str,
    /// Number of analysed bytes that every packet has.
    pub header: usize,
    /// The byte that identifies sources of one sender.
    pub id: Option<usize>,
    /// Counters without overlap; the packet counter first.
    pub counters: Vec<Counter>,
    pub growing: Vec<(Word, Growth)>,
}

/// A field of the draft.
struct Field {
    at: usize,
    bytes: usize,
    comment: String,
    text: String,
}

/// Writes the file.
pub(super) fn write(draft: &Draft, findings: &Findings<'_>) -> String {
    let writer = Writer { draft, findings, order: file_order(findings) };
    let mut out = String::new();
    let _ = writer.head(&mut out).and_then(|()| writer.packet(&mut out));
    out
}

fn file_order(findings: &Findings<'_>) -> ByteOrder {
    let first = findings.counters.iter().map(|of| of.word);
    let mut words = first.chain(findings.growing.iter().map(|of| of.0));
    words.next().map_or(ByteOrder::Big, |word| word.order)
}

struct Writer<'a> {
    draft: &'a Draft,
    findings: &'a Findings<'a>,
    order: ByteOrder,
}

impl Writer<'_> {
    fn head(&self, out: &mut String) -> std::fmt::Result {
        let Draft { packets, senders, others, .. } = self.draft;
        writeln!(
            out,
            "# A draft: what {packets} packets of one capture have in common. Correct it"
        )?;
        writeln!(out, "# by the sender's manual; a capture shows neither names nor meanings.")?;
        writeln!(out, "# Senders: {} followed one by one.", senders.len())?;
        if *others > 0 {
            writeln!(out, "# {others} packets of further senders were looked at as a whole only.")?;
        }
        let order = if self.order == ByteOrder::Big { "big" } else { "little" };
        writeln!(out, "name = \"draft\"\nabout = \"Drafted from a capture\"")?;
        writeln!(out, "reference = {}\nbyte-order = \"{order}\"\n", quoted(self.findings.origin))
    }

    fn packet(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "[[packet]]\nname = \"data\"")?;
        self.sizes(out)?;
        let fields = self.fields();
        writeln!(out, "fields = [")?;
        for field in &fields {
            let end = field.at + field.bytes;
            writeln!(out, "  # Bytes {}..{end}: {}", field.at, field.comment)?;
            writeln!(out, "  {},", field.text)?;
        }
        writeln!(out, "]")?;
        self.roles(out)?;
        let end = fields.last().map_or(0, |field| field.at + field.bytes);
        self.payload(out, end)
    }

    fn sizes(&self, out: &mut String) -> std::fmt::Result {
        let (low, high) = self.draft.size_limits.unwrap_or_default();
        if low == high {
            writeln!(out, "# Every packet has {low} bytes.")?;
            return writeln!(out, "size = {{ equals = {low} }}");
        }
        let mut sizes: Vec<(usize, u64)> =
            self.draft.sizes.iter().map(|(size, count)| (*size, *count)).collect();
        sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        let shown: Vec<String> = sizes
            .iter()
            .take(SIZES_SHOWN_MAX)
            .map(|(size, count)| format!("{size} ({count} packets)"))
            .collect();
        writeln!(
            out,
            "# Sizes from {low} to {high} bytes; the most frequent: {}.",
            shown.join(", ")
        )?;
        if let Some((word, less)) = self.length_word() {
            let (place, order) = (place_of(word), order_of(word));
            writeln!(
                out,
                "# {place} ({order}) hold the packet's size less {less} in every sample."
            )?;
        }
        writeln!(out, "size = {{ min = {low}, max = {high} }}")
    }

    /// Returns the fields up to the last known one.
    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        for (number, counter) in self.findings.counters.iter().enumerate() {
            fields.push(self.counter_field(counter, number));
        }
        fields.extend(
            self.findings.growing.iter().map(|(word, growth)| self.growing_field(*word, growth)),
        );
        fields.extend(self.findings.id.map(|at| self.id_field(at)));
        fields.sort_by_key(|field| field.at);
        let end = fields.last().map_or(self.findings.header.min(8), |last| last.at + last.bytes);
        let mut all: Vec<Field> = Vec::new();
        let mut at = 0;
        for field in fields {
            self.fill(&mut all, at..field.at);
            at = field.at + field.bytes;
            all.push(field);
        }
        self.fill(&mut all, at..end);
        all
    }

    fn counter_field(&self, counter: &Counter, number: usize) -> Field {
        let Counter { word, low, high, moved, wrapped, share } = *counter;
        let name = if number == 0 { "counter".to_string() } else { format!("counter_{}", word.at) };
        let whole = low == 0 && high + 1 == word.bytes as u32 * 8;
        let text = if whole {
            format!("{{ name = \"{name}\", type = \"{}\"{} }}", type_of(word), self.own_order(word))
        } else {
            format!(
                "{{ name = \"{name}_word\", type = \"{}\"{}, bits = [{{ name = \"{name}\", bits = \
                 \"{high}..{low}\" }}] }}",
                type_of(word),
                self.own_order(word)
            )
        };
        let bits = if whole { String::new() } else { format!("bits {high}..{low}, ") };
        let end = match wrapped {
            true => "it was seen to begin anew",
            false => "how wide it is beyond them is a guess",
        };
        let also = if number == 0 { "" } else { ", perhaps the event's number" };
        let comment = format!(
            "{bits}{}: counts by one in {:.1} % of the steps from packet to packet of a \
             sender{also}; {moved} bits moved, {end}.",
            order_of(word),
            share * 100.0
        );
        Field { at: word.at, bytes: word.bytes, comment, text }
    }

    fn growing_field(&self, word: Word, growth: &Growth) -> Field {
        let (name, comment) = match growth {
            Growth::Key { packets_each } => (
                "key",
                format!(
                    "{}: grows by one every {packets_each:.1} packets of a sender; likely the \
                     event key.",
                    order_of(word)
                ),
            ),
            Growth::Time { ns_per_tick, step } => (
                "time",
                format!(
                    "{}: grows with the time of arrival, one tick is about {}; likely a time \
                     stamp{}.",
                    order_of(word),
                    unit_of(*ns_per_tick),
                    step.map_or(String::new(), |step| format!(", or a counter in steps of {step}"))
                ),
            ),
            Growth::Steps { step, share } => (
                "number",
                format!(
                    "{}: grows by {step} in {:.1} % of the steps from packet to packet of a \
                     sender: samples, records or bytes?",
                    order_of(word),
                    share * 100.0
                ),
            ),
        };
        let (kind, order) = (type_of(word), self.own_order(word));
        let text = format!("{{ name = \"{name}_{}\", type = \"{kind}\"{order} }}", word.at);
        Field { at: word.at, bytes: word.bytes, comment, text }
    }

    fn id_field(&self, at: usize) -> Field {
        let values = self.draft.columns.values(at);
        let comment = format!(
            "{values} values; the counter counts for each of them on its own: the source's number?"
        );
        let text = format!("{{ name = \"id_{at}\", type = \"u8\" }}");
        Field { at, bytes: 1, comment, text }
    }

    /// Adds fields for bytes with little evidence: runs that never change, and runs that do.
    fn fill(&self, fields: &mut Vec<Field>, gap: std::ops::Range<usize>) {
        let columns = &self.draft.columns;
        let mut at = gap.start;
        while at < gap.end {
            let constant = columns.constant(at).is_some();
            let run = (at..gap.end)
                .take_while(|&byte| columns.constant(byte).is_some() == constant)
                .take(if constant { CONSTANT_BYTES - at % CONSTANT_BYTES } else { usize::MAX })
                .count();
            fields.push(if constant {
                self.constant_field(at, run)
            } else {
                self.unknown(at, run)
            });
            at += run;
        }
    }

    fn constant_field(&self, at: usize, bytes: usize) -> Field {
        let values: Vec<u8> =
            (at..at + bytes).filter_map(|byte| self.draft.columns.constant(byte)).collect();
        let hex: Vec<String> = values.iter().map(|byte| format!("{byte:02x}")).collect();
        let word = Word { at, bytes, order: self.order };
        let value = fluxline_packet::word::read_word(&values, self.order);
        let kind = type_of(word);
        if value == 0 {
            let comment = "always 0 here.".to_string();
            return Field { at, bytes, comment, text: format!("{{ type = \"{kind}\" }}") };
        }
        let comment = format!("always {} here.", hex.join(" "));
        let text = match at {
            // TOML's integers end at 2^63 - 1.
            0 if value <= i64::MAX as u64 => {
                format!("{{ name = \"magic\", type = \"{kind}\", equals = {value:#x} }}")
            }
            _ => format!("{{ name = \"constant_{at}\", type = \"{kind}\" }}"),
        };
        Field { at, bytes, comment, text }
    }

    fn unknown(&self, at: usize, bytes: usize) -> Field {
        let columns = &self.draft.columns;
        let entropy: f64 = (at..at + bytes).map(|byte| columns.entropy_bits(byte)).sum();
        let values = (at..at + bytes).map(|byte| columns.values(byte)).max().unwrap_or(0);
        let fixed = match self.is_fixed_per_sender(at, bytes) {
            true => " The same in all packets of a sender, and not of all senders: its number?",
            false => "",
        };
        let comment = format!(
            "unknown; at most {values} values a byte, {:.1} bits of entropy a byte.{fixed}",
            entropy / bytes as f64
        );
        let text = match bytes {
            1..=8 => {
                let word = Word { at, bytes, order: self.order };
                format!("{{ name = \"unknown_{at}\", type = \"{}\" }}", type_of(word))
            }
            _ => format!("{{ name = \"unknown_{at}\", type = \"bytes\", length = {bytes} }}"),
        };
        Field { at, bytes, comment, text }
    }

    fn is_fixed_per_sender(&self, at: usize, bytes: usize) -> bool {
        let part = |sample: &Sample| sample.bytes[at..at + bytes].to_vec();
        let senders = self.draft.senders.values().filter(|samples| !samples.is_empty());
        let mut firsts = Vec::new();
        for samples in senders {
            let first = part(&samples[0]);
            if samples.iter().any(|sample| part(sample) != first) {
                return false;
            }
            firsts.push(first);
        }
        firsts.iter().any(|first| *first != firsts[0])
    }

    fn roles(&self, out: &mut String) -> std::fmt::Result {
        if let Some(at) = self.findings.id {
            writeln!(out, "source = [\"address\", \"port\", \"id_{at}\"]")?;
        }
        match self.findings.counters.first() {
            Some(counter) if counter.is_certain() => {
                writeln!(out, "sequence = {{ value = \"counter\" }}")?;
            }
            Some(_) => {
                writeln!(out, "# Few bits moved, so this is not certain:")?;
                writeln!(out, "# sequence = {{ value = \"counter\" }}")?;
            }
            None => writeln!(out, "# No packet counter was found: losses cannot be seen.")?,
        }
        for (word, growth) in &self.findings.growing {
            match growth {
                Growth::Key { .. } => writeln!(out, "# event = {{ key = \"key_{}\" }}", word.at)?,
                Growth::Time { ns_per_tick, step } => {
                    writeln!(
                        out,
                        "# timestamp = {{ ticks = \"time_{}\", unit = \"{}\", epoch = \"start\" }}",
                        word.at,
                        unit_of(*ns_per_tick)
                    )?;
                    if let Some(step) = step {
                        writeln!(
                            out,
                            "# sequence = {{ value = \"time_{}\", step = {step} }}",
                            word.at
                        )?;
                    }
                }
                Growth::Steps { step, .. } => writeln!(
                    out,
                    "# sequence = {{ value = \"number_{}\", step = {step} }}",
                    word.at
                )?,
            }
        }
        Ok(())
    }

    fn payload(&self, out: &mut String, end: usize) -> std::fmt::Result {
        let header = self.findings.header;
        if header <= end {
            return Ok(());
        }
        let entropy: f64 = (end..header).map(|at| self.draft.columns.entropy_bits(at)).sum();
        let each = entropy / (header - end) as f64;
        writeln!(
            out,
            "# The payload, bytes {end} and on: {each:.1} of 8 bits of entropy a byte up to byte \
             {header}."
        )
    }

    /// Returns a word that holds the size less a constant, where sizes differ.
    fn length_word(&self) -> Option<(Word, u64)> {
        let samples = || self.draft.senders.values().flatten();
        let first = samples().next()?;
        for bytes in [4, 2] {
            for at in (0..=self.findings.header.saturating_sub(bytes)).step_by(2) {
                for order in [ByteOrder::Big, ByteOrder::Little] {
                    let word = Word { at, bytes, order };
                    let Some(less) = (first.size as u64).checked_sub(first.word(word)) else {
                        continue;
                    };
                    if samples().all(|sample| sample.word(word) + less == sample.size as u64) {
                        return Some((word, less));
                    }
                }
            }
        }
        None
    }

    fn own_order(&self, word: Word) -> &'static str {
        match (word.order == self.order || word.bytes == 1, word.order) {
            (true, _) => "",
            (false, ByteOrder::Big) => ", byte-order = \"big\"",
            (false, ByteOrder::Little) => ", byte-order = \"little\"",
        }
    }
}

impl Counter {
    /// Returns true when enough of it was seen: six bits that moved, or its end.
    fn is_certain(&self) -> bool {
        self.moved >= 6 || self.wrapped
    }
}

/// Returns the counters that do not overlap a better one; those after the first move about as much.
pub(super) fn choose(found: Vec<Counter>) -> Vec<Counter> {
    let mut chosen: Vec<Counter> = Vec::new();
    for counter in found {
        let free = chosen.iter().all(|other| !overlap(&other.word, &counter.word));
        let alike =
            chosen.first().is_none_or(|first| counter.low == 0 && counter.moved >= first.moved);
        if free && alike && chosen.len() < 3 {
            chosen.push(counter);
        }
    }
    chosen
}

fn type_of(word: Word) -> String {
    format!("u{}", word.bytes * 8)
}

fn place_of(word: Word) -> String {
    format!("Bytes {}..{}", word.at, word.at + word.bytes)
}

fn order_of(word: Word) -> &'static str {
    match (word.bytes, word.order) {
        (1, _) => "one byte",
        (_, ByteOrder::Big) => "big-endian",
        (_, ByteOrder::Little) => "little-endian",
    }
}

/// Returns the likely tick of a clock: the nearest of 1, 2, 4, 5, 8, 10, 20, ... ns, as
/// `timestamp.unit` has it; otherwise the measured one.
fn unit_of(ns_per_tick: f64) -> String {
    let scale = 10_f64.powf(ns_per_tick.log10().floor());
    let round = [1.0, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.4, 8.0, 10.0].map(|factor| factor * scale);
    let near = round.into_iter().find(|unit| (unit / ns_per_tick - 1.0).abs() < 0.01);
    let ns = near.unwrap_or(ns_per_tick);
    match ns {
        _ if ns < 1.0 => format!("{} ps", rounded(ns * 1e3)),
        _ if ns < 1e3 => format!("{} ns", rounded(ns)),
        _ if ns < 1e6 => format!("{} us", rounded(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", rounded(ns / 1e6)),
        _ => format!("{} s", rounded(ns / 1e9)),
    }
}

/// Returns a number with at most four significant digits behind the point.
fn rounded(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Returns a text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{quoted, unit_of};

    #[test]
    fn ticks_are_those_that_clocks_have() {
        assert_eq!(unit_of(8.003), "8 ns");
        assert_eq!(unit_of(0.9999), "1 ns");
        assert_eq!(unit_of(100.4), "100 ns");
        assert_eq!(unit_of(11.357), "11.357 ns");
        assert_eq!(unit_of(999_000.0), "1 ms");
        assert_eq!(unit_of(0.001), "1 ps");
    }

    #[test]
    fn names_of_files_cannot_leave_their_quotes() {
        assert_eq!(quoted("a\"b\\c\nd\u{1b}"), "\"a\\\"b\\\\c\\u000ad\\u001b\"");
    }
}
