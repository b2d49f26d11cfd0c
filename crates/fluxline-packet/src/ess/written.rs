//! The mapping to ESS schemas in TOML, with the places kept.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;
use toml::Spanned;

use crate::model::Expression;

/// `[packet.ess]`: the mapping of one packet type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ess {
    /// Detector events.
    pub ev44: Option<Spanned<Events>>,
    /// Arrays of samples.
    pub da00: Option<Spanned<Array>>,
    /// Logged values.
    #[serde(default)]
    pub f144: Vec<Spanned<LogValue>>,
}

/// `[packet.ess.ev44]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Events {
    /// The name of the data; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time from which times of flight count: `"sensor-time"`, `"arrival-time"` or an
    /// expression over the header \[ns since 1970\].
    pub reference_time: Option<Spanned<Expression>>,
    /// The time of flight \[ns\].
    pub time_of_flight: Spanned<Expression>,
    /// The detector's pixel.
    pub pixel_id: Option<Spanned<Expression>>,
    /// A record is an event only when this is not 0.
    pub when: Option<Spanned<Expression>>,
}

/// `[packet.ess.da00]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Array {
    /// The name of the data; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time of the first sample, as `reference-time` of ev44.
    pub timestamp: Option<Spanned<Expression>>,
    /// The samples: a field of the records, or `payload`.
    pub signal: Option<Spanned<String>>,
    /// Names of the axes, the slowest first; default: `["sample"]`.
    pub axes: Option<Spanned<Vec<String>>>,
    /// Sizes of all axes but the first.
    pub inner_shape: Option<Spanned<Vec<u64>>>,
    /// The packets of one source in an event make one array.
    #[serde(default)]
    pub join: bool,
}

/// `[[packet.ess.f144]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogValue {
    /// The name of the value; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time of the value, as `reference-time` of ev44.
    pub timestamp: Option<Spanned<Expression>>,
    /// The value.
    pub value: Spanned<Expression>,
}
