//! A counter is judged by its meaning: equal functions have equal verdicts, however they are
//! spelled, and the verdict is the one of counting out all packets.

use std::collections::BTreeMap;

use fluxline_packet::Description;
use fluxline_packet::layout::Sequence;

/// Fields with few values, so that all packets can be counted out.
const FIELDS: &str = r#"
    { name = "a", type = "u8", bits = [{ name = "a_low", bits = "3..0" }] },
    { name = "q", type = "u8", bits = [
        { name = "q1", bits = "7..4", max = 9 }, { name = "q0", bits = "3..0", max = 9 },
    ] },
    { name = "d", type = "u8", min = 1, max = 12 },
"#;

fn load(computed: &str, sequence: &str) -> Result<Sequence, String> {
    let text = format!(
        "name = \"t\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"p\"\nfields = [{FIELDS}]\ncomputed = [{computed}]\nsequence = {{ {sequence} }}\n"
    );
    let loaded = Description::load("t.toml", &text, &BTreeMap::new());
    let loaded = loaded.map_err(|error| error.to_string())?;
    Ok(loaded.packet_types()[0].sequence.clone().expect("a counter"))
}

/// The meaning of a spelling: a function of a, q1, q0 and d.
#[derive(Clone, Debug)]
enum Function {
    Field(&'static str),
    Constant(u64),
    Sum(Box<Function>, Box<Function>),
    Times(Box<Function>, u64),
    Part { of: Box<Function>, shift: u32, width: u32 },
    Gray(Box<Function>),
    Rest(Box<Function>, u64),
}

use Function::{Constant, Field, Gray, Part, Rest, Sum, Times};

impl Function {
    fn value(&self, packet: [u64; 4]) -> u64 {
        let [a, q1, q0, d] = packet;
        match self {
            Field("a") => a,
            Field("a_low") => a & 15,
            Field("q1") => q1,
            Field("q0") => q0,
            Field(_) => d,
            Constant(constant) => *constant,
            Sum(left, right) => left.value(packet) + right.value(packet),
            Times(of, by) => of.value(packet) * by,
            Part { of, shift, width } => of.value(packet) >> shift & ((1 << width) - 1),
            Gray(of) => {
                let code = of.value(packet);
                (0..64).fold(0, |value, shift| value ^ code >> shift)
            }
            Rest(of, by) => of.value(packet) % by,
        }
    }

    fn uses(&self, name: &str) -> bool {
        match self {
            Field(field) => *field == name || (name == "a" && *field == "a_low"),
            Constant(_) => false,
            Sum(left, right) => left.uses(name) || right.uses(name),
            Times(of, _) | Gray(of) | Rest(of, _) | Part { of, .. } => of.uses(name),
        }
    }

    /// Returns true when each number of an arithmetic sequence comes equally often.
    fn counts(&self) -> bool {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        let last = |name: &str, last: u64| if self.uses(name) { last } else { 0 };
        for a in 0..=last("a", 255) {
            for q1 in 0..=last("q1", 9) {
                for q0 in 0..=last("q0", 9) {
                    for d in 1..=1 + last("d", 11) {
                        *times.entry(self.value([a, q1, q0, d])).or_default() += 1;
                    }
                }
            }
        }
        let numbers: Vec<u64> = times.keys().copied().collect();
        let each = times.values().next().copied();
        let is_even = times.values().all(|count| Some(*count) == each);
        is_even && numbers.len() >= 16 && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1)
    }
}

/// xorshift64*: enough for choosing.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn function(&mut self, depth: u32) -> Function {
        if depth == 0 {
            return Field(self.of(&["a", "a", "a_low", "q1", "q0", "d"]));
        }
        let of = Box::new(self.function(depth - 1));
        match self.below(9) {
            0..4 => {
                let weight = self.of(&[1, 2, 10, 12, 16, 100, 256, 4096]);
                let lower = Box::new(self.function(depth.saturating_sub(2)));
                Sum(Box::new(Times(of, weight)), lower)
            }
            4 => Times(of, self.of(&[1, 2, 3, 8])),
            5 => Part { of, shift: self.of(&[0, 0, 1, 4]), width: self.of(&[4, 5, 8, 12]) },
            6 => Gray(of),
            7 => Rest(of, self.of(&[10, 16, 60, 100, 128])),
            _ => Sum(of, Box::new(Constant(self.of(&[0, 1, 7])))),
        }
    }

    /// One of the ways to write a function; some of its parts become computed values.
    fn spelling(&mut self, function: &Function, computed: &mut Vec<String>) -> String {
        let text = match function {
            Field(name) => (*name).to_string(),
            Constant(constant) => constant.to_string(),
            Sum(left, right) => {
                let (left, right) = (self.spelling(left, computed), self.spelling(right, computed));
                match self.below(3) {
                    0 => format!("({left} + {right})"),
                    1 => format!("({right} + {left})"),
                    _ => format!("(({left}) + 0 + ({right}))"),
                }
            }
            Times(of, by) => {
                let of = self.spelling(of, computed);
                match self.below(4) {
                    0 if by.is_power_of_two() => format!("({of} << {})", by.trailing_zeros()),
                    1 if *by == 2 => format!("({of} + {of})"),
                    2 => format!("({by} * {of})"),
                    _ => format!("({of} * {by})"),
                }
            }
            Part { of, shift, width } => {
                let of = self.spelling(of, computed);
                let of = match self.below(2) {
                    0 => format!("({of} >> {shift})"),
                    _ => format!("({of} / {})", 1 << shift),
                };
                match self.below(3) {
                    0 => format!("({of} % {})", 1 << width),
                    1 => format!("({} & {of})", (1 << width) - 1),
                    _ => format!("({of} & {:#x})", (1 << width) - 1),
                }
            }
            Gray(of) => format!("gray({})", self.spelling(of, computed)),
            Rest(of, by) => {
                let of = self.spelling(of, computed);
                match self.below(2) {
                    0 => format!("({of} % {by})"),
                    _ => format!("({of} - {of} / {by} * {by})"),
                }
            }
        };
        match self.below(4) {
            0 => {
                let name = format!("c{}", computed.len());
                computed.push(format!("{{ name = \"{name}\", value = \"{text}\" }}"));
                name
            }
            _ => text,
        }
    }
}

#[test]
fn equal_functions_have_equal_verdicts_and_they_are_those_of_counting_out() {
    let mut both = [0; 2];
    for seed in 1..=1500 {
        let mut dice = Dice(seed * 0x9E37_79B9);
        let depth = dice.below(5) as u32;
        let function = dice.function(depth);
        let counts = function.counts();
        both[usize::from(counts)] += 1;
        for _ in 0..3 {
            let mut computed = Vec::new();
            let text = dice.spelling(&function, &mut computed);
            let loaded = load(&computed.join(", "), &format!("value = \"{text}\""));
            // `x - x / 10 * 10` is refused for its range, by a message of its own.
            if loaded.as_ref().err().is_some_and(|error| error.contains("can be as low as")) {
                continue;
            }
            let said = loaded.as_ref().err();
            assert_eq!(loaded.is_ok(), counts, "seed {seed}: {text} of {computed:?}: {said:?}");
        }
    }
    assert!(both[0] > 200 && both[1] > 200, "{both:?}");
}

fn verdict(value: &str, fields: &str, computed: &str) -> Result<(u64, u64), String> {
    let text = format!(
        "name = \"t\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"p\"\nfields = [{fields}]\ncomputed = [{computed}]\nsequence = {{ {value} }}\n"
    );
    let loaded = Description::load("t.toml", &text, &BTreeMap::new());
    let loaded = loaded.map_err(|error| error.to_string())?;
    let sequence = loaded.packet_types()[0].sequence.clone().expect("a counter");
    Ok((sequence.first, sequence.largest))
}

#[test]
fn a_counter_that_overlaps_is_refused_by_way_of_a_computed_name_too() {
    let fields = "{ name = \"frame\", type = \"u16\" }, { name = \"number\", type = \"u8\" }";
    let computed = "{ name = \"s\", value = \"frame * 100 + number\" }, \
                    { name = \"t\", value = \"s\" }";
    let said: Vec<String> = ["frame * 100 + number", "s", "t", "number + 100 * frame"]
        .map(|value| verdict(&format!("value = \"{value}\""), fields, computed).unwrap_err())
        .into();
    for said in said {
        assert!(said.contains("`frame * 100` and `number` overlap"), "{said}");
    }
}

#[test]
fn digits_in_decimal_are_a_counter() {
    let fields = "{ name = \"w\", type = \"u16\", bits = [\
        { name = \"q3\", bits = \"15..12\", max = 9 }, \
        { name = \"q2\", bits = \"11..8\", max = 9 }, \
        { name = \"q1\", bits = \"7..4\", max = 9 }, \
        { name = \"q0\", bits = \"3..0\", max = 9 }] }";
    let of = |value: &str| verdict(&format!("value = \"{value}\""), fields, "");
    assert_eq!(of("10 * q1 + q0"), Ok((0, 99)));
    assert_eq!(of("((q3 * 10 + q2) * 10 + q1) * 10 + q0"), Ok((0, 9999)));
    let said = of("100 * q2 + q0").unwrap_err();
    assert!(said.contains("is never 10, and the next number is 100"), "{said}");
}

#[test]
fn a_counter_in_steps_begins_anew_with_its_step() {
    let fields = "{ name = \"frame\", type = \"u16\" }";
    for value in ["2 * frame", "frame * 2", "frame << 1", "frame + frame"] {
        let said = verdict(&format!("value = \"{value}\""), fields, "").unwrap_err();
        assert!(said.contains("counts in steps of 2, and `step` is 1"), "{value}: {said}");
        let stepped = verdict(&format!("value = \"{value}\", step = 2"), fields, "");
        assert_eq!(stepped, Ok((0, 131_070)), "{value}");
    }
    let text = "name = \"t\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
        name = \"p\"\nfields = [{ name = \"frame\", type = \"u16\" }]\n\
        sequence = { value = \"2 * frame\", step = 2 }\n";
    let loaded = Description::load("t.toml", text, &BTreeMap::new()).expect("a right counter");
    let sequence = loaded.packet_types()[0].sequence.clone().expect("a counter");
    let values = [65_534, 65_535, 65_536, 65_537].map(|count| sequence.value_of(count));
    assert_eq!(values, [131_068, 131_070, 0, 2]);
}

#[test]
fn a_counter_of_hundreds_of_fields_and_constants_is_refused_at_once() {
    let fields = (0..400).map(|number| format!("{{ name = \"f{number}\", type = \"u8\" }}"));
    let fields = fields.collect::<Vec<_>>().join(", ");
    let sums = (0..40).map(|part| {
        let terms = (0..10).map(|at| format!("(f{} == {})", part * 10 + at, 200 - part - at));
        let terms = terms.collect::<Vec<_>>().join(" + ");
        format!("{{ name = \"s{part}\", value = \"{terms}\" }}")
    });
    let computed = sums.collect::<Vec<_>>().join(", ");
    let value = (0..40).map(|part| format!("s{part}")).collect::<Vec<_>>().join(" + ");
    let said = verdict(&format!("value = \"{value}\""), &fields, &computed).unwrap_err();
    assert!(said.contains("nothing says which numbers"), "{said}");
}
