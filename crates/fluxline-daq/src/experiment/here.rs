//! Checks of an experiment against this host and its descriptions: cores, ports, parameters.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fluxline_packet::{Description, nearest};

use super::problem::Problem;
use super::{Experiment, Source};
use crate::filter::{EventExpression, FilterInput};
use crate::formats;

/// Returns the sentence on a mistake in an expression of the filter, by its key.
pub fn filter_sentence(key: &str, error: &str) -> String {
    format!("[filter] {key}, {}.", error.trim_end_matches('.'))
}

/// Returns the sentence on a mistake in an expression of `[loop]`.
pub fn loop_sentence(error: &str) -> String {
    format!("[loop] values, {}.", error.trim_end_matches('.'))
}

/// An address that a source listens on.
struct Listen<'a> {
    path: String,
    source: &'a str,
    address: SocketAddr,
}

impl Experiment {
    /// Checks that the cores exist and that each description has the parameters that are set.
    pub(super) fn check_here(&self, cores: &[usize]) -> Result<(), Problem> {
        self.check_cores(cores)?;
        for (number, source) in self.sources.iter().enumerate() {
            source.check_format().map_err(|problem| problem.below(&format!("source.{number}")))?;
        }
        self.check_expressions()
    }

    /// Checks the expressions of the filter, the loop and the plots against the descriptions.
    fn check_expressions(&self) -> Result<(), Problem> {
        let all = [("keep", &self.filter.keep), ("mark", &self.filter.mark)];
        let expressions = || all.iter().filter_map(|(key, text)| Some((*key, text.as_ref()?)));
        let values = || self.feedback.iter().flat_map(|of| &of.values);
        let has_none = expressions().next().is_none() && values().next().is_none();
        if has_none && self.plots.is_empty() {
            return Ok(());
        }
        let formats = self.sources.iter().map(|of| formats::load(&of.format, &of.parameters));
        // A fault in a description is reported with its own lines later.
        let Ok(formats) = formats.collect::<Result<Vec<_>, _>>() else { return Ok(()) };
        let pairs = self.sources.iter().zip(&formats);
        let inputs: Vec<_> = pairs
            .map(|(of, format)| FilterInput { name: &of.name, description: &format.description })
            .collect();
        for (key, text) in expressions() {
            EventExpression::compile(text, &inputs).map_err(|error| {
                Problem::at(format!("filter.{key}"), filter_sentence(key, &error))
            })?;
        }
        for text in values() {
            EventExpression::compile(text, &inputs)
                .map_err(|error| Problem::at("loop.values", loop_sentence(&error)))?;
        }
        for (number, plot) in self.plots.iter().enumerate() {
            plot.compile(&inputs).map_err(|problem| problem.below(&format!("plot.{number}")))?;
        }
        Ok(())
    }

    fn check_cores(&self, cores: &[usize]) -> Result<(), Problem> {
        let threads = [("readout-core", self.readout_core), ("recorder-core", self.recorder_core)];
        let threads = threads.map(|(key, core)| (key.to_string(), core));
        let sources = self.sources.iter().enumerate();
        let sources =
            sources.map(|(number, source)| (format!("source.{number}.core"), source.core));
        for (path, core) in threads.into_iter().chain(sources) {
            let Some(core) = core.filter(|core| !cores.is_empty() && !cores.contains(core)) else {
                continue;
            };
            let key = path.rsplit('.').next().unwrap_or_default();
            let text = format!(
                "{key} = {core}: this program may not use core {core}; write {} or leave it out.",
                list_of(cores)
            );
            return Err(Problem::at(path, text));
        }
        Ok(())
    }

    /// Checks that no two sockets share a port: the second one would be rejected, or each would get
    /// a part.
    pub(super) fn check_ports(&self) -> Result<(), Problem> {
        let mut seen: Vec<Listen<'_>> = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            for listen in listens_of(number, source) {
                if let Some(other) = seen.iter().find(|other| other.clashes_with(&listen)) {
                    let text = format!(
                        "source `{}` listens on {}, and source `{}` on {}: that is the same port \
                         twice; write it once, or another port.",
                        listen.source, listen.address, other.source, other.address
                    );
                    return Err(Problem::at(listen.path, text));
                }
                seen.push(listen);
            }
        }
        Ok(())
    }
}

impl Listen<'_> {
    fn clashes_with(&self, other: &Listen<'_>) -> bool {
        let (a, b) = (self.address, other.address);
        let all = a.ip().is_unspecified() || b.ip().is_unspecified();
        a.port() != 0
            && a.port() == b.port()
            && a.is_ipv4() == b.is_ipv4()
            && (all || a.ip() == b.ip())
    }
}

/// Returns the addresses that a source listens on. Host names are left out; their addresses are not
/// known here.
fn listens_of(number: usize, source: &Source) -> Vec<Listen<'_>> {
    let udp = source.udp.iter().flat_map(|udp| udp.listen.iter().enumerate());
    let udp = udp.map(|(at, text)| (format!("source.{number}.udp.listen.{at}"), text));
    let roce =
        source.roce.iter().map(|roce| (format!("source.{number}.roce.listen"), &roce.listen));
    udp.chain(roce)
        .filter_map(|(path, text)| {
            Some(Listen { path, source: &source.name, address: text.parse().ok()? })
        })
        .collect()
}

/// Returns a list of cores: `0 to 3`, or all of them where some between are missing.
fn list_of(cores: &[usize]) -> String {
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    match last - first + 1 == cores.len() {
        true if first == last => first.to_string(),
        true => format!("{first} to {last}"),
        false => cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl Source {
    /// Checks that the description exists and has the parameters that are set.
    fn check_format(&self) -> Result<(), Problem> {
        let read = formats::read(&self.format);
        let (name, text) = read.map_err(|error| Problem::at("format", error.to_string()))?;
        // A fault in the description itself is reported with its own lines later.
        let Ok(description) = Description::load(&name, &text, &BTreeMap::new()) else {
            return Ok(());
        };
        self.parameters.iter().try_for_each(|(name, value)| {
            check_parameter(&description, name, *value)
                .map_err(|text| Problem::at(format!("parameters.{name}"), text))
        })
    }
}

fn check_parameter(description: &Description, name: &str, value: u64) -> Result<(), String> {
    let known = &description.document().parameters;
    let format = description.name();
    let Some(parameter) = known.get(name) else {
        let hint = match nearest(name, known.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it has none.".to_string(),
            None => format!("it has {}.", known.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        return Err(format!("the description `{format}` has no parameter `{name}`; {hint}"));
    };
    let (min, max) = (parameter.min, parameter.max.unwrap_or(u64::MAX));
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(format!("parameter `{name}` of `{format}` is {value}; write {min} to {max}.")),
    }
}
