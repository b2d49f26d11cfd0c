//! InfluxDB's line protocol: one line as named values.
//!
//! `measurement,tag=v field=1.5,other=2i,text="x",on=true 1700000000000000000`. A backslash makes a
//! comma, an equals sign or a space part of a name; another backslash is one. Lines come from
//! anybody who reaches the socket, so everything has a greatest length.
//! Source: InfluxDB OSS v2 documentation, "Line protocol".

use std::fmt;

use fluxline_daq::record::SlowValue;

/// Longest name of a value, with its tags \[byte\].
pub const NAME_BYTES_MAX: usize = 256;
/// Longest text \[byte\].
pub const TEXT_BYTES_MAX: usize = 1024;
/// The tag that names the unit of the line's values, and does not belong to their names.
const UNIT_TAG: &str = "unit";
/// Longest unit \[byte\].
const UNIT_BYTES_MAX: usize = 32;

/// The values of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Their names and values.
    pub values: Vec<NamedValue>,
    /// Their unit; empty: not known.
    pub unit: String,
    /// The sender's time \[ns since 1970\].
    pub time_ns: Option<i64>,
}

/// A value of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedValue {
    /// `measurement/field`, or `measurement{tag=v,other=w}/field`, the tags by name.
    pub name: String,
    /// Its value.
    pub value: SlowValue,
}

/// The reason why a line is not line protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Malformed {
    /// Not UTF-8.
    Encoding,
    /// A character that no terminal prints.
    Control,
    /// No measurement, or a tag or field without a name or value.
    Empty,
    /// No field.
    NoField,
    /// A number that cannot be read, or is not finite.
    Number,
    /// A text without its closing quotation mark.
    Quote,
    /// A timestamp that cannot be read.
    Time,
    /// A name that is too long.
    LongName,
    /// A text that is too long.
    LongText,
    /// A unit that is too long.
    LongUnit,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Encoding => out.write_str("it is not UTF-8"),
            Malformed::Control => out.write_str("it has a control character"),
            Malformed::Empty => out.write_str("a name or value is missing"),
            Malformed::NoField => out.write_str("it has no field; write `name field=1.5`"),
            Malformed::Number => out.write_str("a value is not a number, and texts need quotes"),
            Malformed::Quote => out.write_str("a text has no closing quotation mark"),
            Malformed::Time => out.write_str("the timestamp is not a whole number of nanoseconds"),
            Malformed::LongName => write!(out, "a name has more than {NAME_BYTES_MAX} bytes"),
            Malformed::LongText => write!(out, "a text has more than {TEXT_BYTES_MAX} bytes"),
            Malformed::LongUnit => write!(out, "a unit has more than {UNIT_BYTES_MAX} bytes"),
        }
    }
}

/// Reads a line, without its end.
///
/// Errors: [`Malformed`]; no value of the line is used then.
pub fn parse(line: &[u8]) -> Result<Line, Malformed> {
    let line = std::str::from_utf8(line).map_err(|_| Malformed::Encoding)?;
    if line.chars().any(|one| one.is_control() && one != '\t') {
        return Err(Malformed::Control);
    }
    let mut rest = Rest(line);
    let Head { name, unit } = rest.head()?;
    let mut values = Vec::new();
    loop {
        let field = rest.word(&[',', '=', ' ']);
        if values.is_empty() && field.is_empty() && rest.0.is_empty() {
            return Err(Malformed::NoField);
        }
        if field.is_empty() || !rest.skip('=') {
            return Err(Malformed::Empty);
        }
        let name = format!("{name}/{field}");
        if name.len() > NAME_BYTES_MAX {
            return Err(Malformed::LongName);
        }
        values.push(NamedValue { name, value: rest.value()? });
        if !rest.skip(',') {
            break;
        }
    }
    let time = rest.0.trim_matches([' ', '\t']);
    let time_ns = match time {
        "" => None,
        // A value that goes on behind its quotation mark has no space there.
        time if rest.0.starts_with(' ') => Some(time.parse().map_err(|_| Malformed::Time)?),
        _ => return Err(Malformed::Quote),
    };
    Ok(Line { values, unit, time_ns })
}

/// The part of a line before its fields.
struct Head {
    /// The measurement with its tags.
    name: String,
    unit: String,
}

/// The part of a line that is not read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn head(&mut self) -> Result<Head, Malformed> {
        let mut name = self.word(&[',', ' ']);
        if name.is_empty() {
            return Err(Malformed::Empty);
        }
        let (mut tags, mut unit) = (Vec::new(), String::new());
        let mut bytes = name.len();
        while self.skip(',') {
            let key = self.word(&[',', '=', ' ']);
            if key.is_empty() || !self.skip('=') {
                return Err(Malformed::Empty);
            }
            let value = self.word(&[',', '=', ' ']);
            if value.is_empty() {
                return Err(Malformed::Empty);
            }
            match key.as_str() {
                UNIT_TAG if value.len() > UNIT_BYTES_MAX => return Err(Malformed::LongUnit),
                UNIT_TAG => unit = value,
                _ => {
                    let tag = format!("{key}={value}");
                    bytes += tag.len();
                    tags.push(tag);
                }
            }
            if bytes > NAME_BYTES_MAX {
                return Err(Malformed::LongName);
            }
        }
        if !self.0.is_empty() && !self.skip(' ') {
            return Err(Malformed::Empty);
        }
        self.0 = self.0.trim_start_matches(' ');
        if !tags.is_empty() {
            tags.sort_unstable();
            name = format!("{name}{{{}}}", tags.join(","));
        }
        if name.len() > NAME_BYTES_MAX { Err(Malformed::LongName) } else { Ok(Head { name, unit }) }
    }

    /// Takes the text up to one of `ends` that no backslash precedes, or to the line's end.
    fn word(&mut self, ends: &[char]) -> String {
        let mut word = String::new();
        let mut chars = self.0.char_indices();
        let mut end = self.0.len();
        while let Some((at, one)) = chars.next() {
            if ends.contains(&one) {
                end = at;
                break;
            }
            let escaped = chars.as_str().chars().next().filter(|next| ",= ".contains(*next));
            match escaped.filter(|_| one == '\\') {
                Some(next) => {
                    word.push(next);
                    chars.next();
                }
                None => word.push(one),
            }
        }
        self.0 = &self.0[end..];
        word
    }

    /// Takes a character; returns false where another one is next.
    fn skip(&mut self, wanted: char) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn value(&mut self) -> Result<SlowValue, Malformed> {
        if self.skip('"') {
            return self.text().map(SlowValue::Text);
        }
        let end = self.0.find([',', ' ']).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        if word.is_empty() {
            return Err(Malformed::Empty);
        }
        number(word).map(SlowValue::Number).ok_or(Malformed::Number)
    }

    /// Takes a text up to its closing quotation mark.
    fn text(&mut self) -> Result<String, Malformed> {
        let mut text = String::new();
        let mut chars = self.0.chars();
        while let Some(one) = chars.next() {
            let escaped = chars.as_str().chars().next().filter(|next| "\"\\".contains(*next));
            match (one, escaped) {
                ('"', _) => {
                    self.0 = chars.as_str();
                    return Ok(text);
                }
                ('\\', Some(next)) => {
                    text.push(next);
                    chars.next();
                }
                _ => text.push(one),
            }
            if text.len() > TEXT_BYTES_MAX {
                return Err(Malformed::LongText);
            }
        }
        Err(Malformed::Quote)
    }
}

/// Returns the number of a word: `1.5`, `-2e3`, `7i`, `7u`, `true`; `None` if it is not one.
fn number(word: &str) -> Option<f64> {
    match word {
        "t" | "T" | "true" | "True" | "TRUE" => return Some(1.0),
        "f" | "F" | "false" | "False" | "FALSE" => return Some(0.0),
        _ => {}
    }
    if let Some(digits) = word.strip_suffix('i') {
        return digits.parse::<i64>().ok().map(|whole| whole as f64);
    }
    if let Some(digits) = word.strip_suffix('u') {
        return digits.parse::<u64>().ok().map(|whole| whole as f64);
    }
    // Rust reads words such as `inf`, too.
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    word.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}
