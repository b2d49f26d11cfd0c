//! Random packet descriptions: every way to write a counter, a key, a part, a time and a source,
//! right ones and contradictory ones. Which of them are refused is the loader's business.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

/// Chooses, from a seed.
pub struct Dice(Xoshiro256StarStar);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256StarStar::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    pub fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// From 0 to just below 1.
    pub fn share(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

/// The parts of a description that grow while its roles are chosen.
#[derive(Default)]
struct Draft {
    fields: Vec<String>,
    roles: Vec<String>,
    emulate: Vec<String>,
    /// The field that holds the counter alone, where one does.
    counter_field: Option<String>,
}

/// Widths of whole fields \[bit\].
const WIDTHS: [u64; 8] = [8, 16, 24, 32, 40, 48, 56, 64];

/// The text of a random description whose packets come every `period_ns`.
pub fn description(dice: &mut Dice, period_ns: u64) -> String {
    let mut draft = Draft::default();
    draft.fields.push("{ name = \"magic\", type = \"u8\", equals = 0xA5 }".into());
    counter(dice, &mut draft, period_ns);
    if dice.one_in(2) {
        event(dice, &mut draft);
    }
    if draft.roles.iter().any(|role| role.contains("timestamp-step-ns")) || dice.one_in(3) {
        timestamp(dice, &mut draft);
    }
    source(dice, &mut draft);
    let order = dice.pick(&["big", "little"]);
    let mut text = format!(
        "name = \"random\"\nabout = \"x\"\nreference = \"x\"\nbyte-order = \"{order}\"\n\
         [[packet]]\nname = \"data\"\nfields = [\n"
    );
    for field in &draft.fields {
        text.push_str(&format!("  {field},\n"));
    }
    text.push_str("]\n");
    for role in &draft.roles {
        text.push_str(&format!("{role}\n"));
    }
    if dice.one_in(6) {
        text.push_str("payload = { trailer = 4 }\n");
        text.push_str("crc = { algorithm = \"CRC-32/ISCSI\", at = -4 }\n");
    }
    text.push_str(&format!(
        "emulate = {{ payload-bytes = {}, fields = {{ {} }} }}\n",
        dice.below(40),
        draft.emulate.join(", ")
    ));
    text
}

/// A packet counter: in a field, in bits, masked, shifted, in two parts, decimal, Gray-coded.
fn counter(dice: &mut Dice, draft: &mut Draft, period_ns: u64) {
    let width = dice.pick(&[4, 5, 6, 8, 8, 10, 12, 12, 14, 16]);
    let ones = (1_u64 << width) - 1;
    let whole = dice.pick(&WIDTHS);
    let field = |extra: &str| format!("{{ name = \"raw\", type = \"u{whole}\"{extra} }}");
    let (value, right_bits) = match dice.below(9) {
        0 => {
            draft.fields.push(field(""));
            draft.counter_field = Some("raw".into());
            ("raw".to_string(), whole)
        }
        1 => {
            let low = dice.below(8);
            let high = low + width - 1;
            draft.fields.push(format!(
                "{{ name = \"word\", type = \"u32\", bits = [{{ name = \"raw\", bits = \
                 \"{high}..{low}\" }}] }}"
            ));
            draft.counter_field = Some(dice.pick(&["raw", "word"]).into());
            ("raw".into(), width)
        }
        2 => {
            draft.fields.push(field(""));
            draft.counter_field = Some("raw".into());
            let mask = if dice.one_in(4) { ones ^ (1 << dice.below(width)) } else { ones };
            (format!("raw & {mask:#x}"), width)
        }
        3 => {
            let shift = dice.below(6);
            draft.fields.push(format!("{{ name = \"raw\", type = \"u16\", max = {ones} }}"));
            draft.emulate.push(format!("raw = \"sequence << {shift}\""));
            (format!("raw >> {shift}"), width.saturating_sub(shift))
        }
        4 | 5 => {
            // Two parts; one time in four there is a hole between them, or they overlap.
            let (low, high) = (1 + dice.below(8), 1 + dice.below(8));
            let apart = if dice.one_in(4) { dice.below(10) } else { low };
            draft.fields.push(format!(
                "{{ name = \"parts\", type = \"u16\", bits = [{{ name = \"upper\", bits = \
                 \"{}..8\" }}, {{ name = \"lower\", bits = \"{}..0\" }}] }}",
                7 + high,
                low - 1
            ));
            draft.emulate.push(format!("upper = \"sequence >> {apart}\""));
            draft.emulate.push(format!("lower = \"sequence & {}\"", (1 << low) - 1));
            let join = match dice.below(3) {
                0 => format!("upper << {apart} | lower"),
                1 => format!("(upper << {apart}) + lower"),
                _ => format!("upper * {} + lower", 1 << apart),
            };
            (join, low + high)
        }
        6 => {
            let base = 2 + dice.below(99);
            draft.fields.push("{ name = \"upper\", type = \"u8\" }".into());
            let most = if dice.one_in(4) { base } else { base - 1 };
            draft.fields.push(format!("{{ name = \"lower\", type = \"u8\", max = {most} }}"));
            draft.emulate.push(format!("upper = \"sequence / {base}\""));
            draft.emulate.push(format!("lower = \"sequence % {base}\""));
            (format!("upper * {base} + lower"), 16)
        }
        7 => {
            let (min, max) = (dice.below(3), 20 + dice.below(3000));
            draft.fields.push(field(&format!(", min = {min}, max = {max}")));
            draft.counter_field = Some("raw".into());
            ("raw".into(), 64 - u64::from(max.leading_zeros()))
        }
        _ => {
            draft.fields.push(field(""));
            draft.emulate.push("raw = \"sequence ^ (sequence >> 1)\"".into());
            ("gray(raw)".into(), whole)
        }
    };
    let bits = match dice.below(4) {
        0 => format!(", bits = {right_bits}"),
        1 => format!(", bits = {}", 4 + dice.below(61)),
        _ => String::new(),
    };
    let step = match dice.below(4) {
        0 => format!(", step = {}", dice.pick(&[1, 2, 3, 4, 8, 10, 200])),
        _ => String::new(),
    };
    let time = match dice.below(3) {
        0 => format!(", timestamp-step-ns = {period_ns}"),
        _ => String::new(),
    };
    draft.roles.push(format!("sequence = {{ value = \"{value}\"{bits}{step}{time} }}"));
}

/// An event key, and perhaps parts of the event.
fn event(dice: &mut Dice, draft: &mut Draft) {
    let width = dice.pick(&WIDTHS);
    draft.fields.push(format!("{{ name = \"trigger\", type = \"u{width}\" }}"));
    let narrow = dice.one_in(4);
    let key = if narrow { "trigger & 0xff" } else { "trigger" };
    if narrow {
        draft.emulate.push("trigger = \"event\"".into());
    }
    let bits = match dice.below(4) {
        0 => format!(", bits = {}", if narrow { 8 } else { width }),
        1 => format!(", bits = {}", 1 + dice.below(64)),
        _ => String::new(),
    };
    draft.roles.push(format!("event = {{ key = \"{key}\"{bits} }}"));
    if dice.one_in(2) {
        let (width, count) = (1 + dice.below(4), 1 + dice.below(12));
        draft.fields.push(format!(
            "{{ name = \"place\", type = \"u8\", bits = [{{ name = \"part\", bits = \"{}..0\" }}] \
             }}",
            width - 1
        ));
        draft.roles.push(format!("fragment = {{ index = \"part\", count = {count} }}"));
    }
}

fn timestamp(dice: &mut Dice, draft: &mut Draft) {
    let width = dice.pick(&[16, 24, 32, 40, 48, 64]);
    let unit = dice.pick(&["1 ns", "8 ns", "1 us", "1 ms", "88052500 Hz", "3 kHz"]);
    draft.fields.push(format!("{{ name = \"time\", type = \"u{width}\" }}"));
    draft
        .roles
        .push(format!("timestamp = {{ ticks = \"time\", unit = \"{unit}\", epoch = \"start\" }}"));
}

/// Draws the source key; one time in eight it is the counter itself.
fn source(dice: &mut Dice, draft: &mut Draft) {
    let source = match (dice.below(8), &draft.counter_field) {
        (0, Some(counter)) => format!("\"{counter}\""),
        (1 | 2, _) => "\"address\", \"port\"".into(),
        (3, _) => "\"port\"".into(),
        (4, _) => "\"address\"".into(),
        _ => {
            let width = 1 + dice.below(8);
            draft.fields.push(format!(
                "{{ name = \"whose\", type = \"u8\", bits = [{{ name = \"board\", bits = \
                 \"{}..0\" }}] }}",
                width - 1
            ));
            "\"board\"".into()
        }
    };
    draft.roles.push(format!("source = [{source}]"));
}
