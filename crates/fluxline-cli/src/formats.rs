//! Finds a description by what the user calls it: a shipped name, or a TOML file.

use std::collections::BTreeMap;
use std::path::Path;

use fluxline_packet::{Description, shipped};
use fluxline_toml::LoadError;

use crate::failure::Failure;

/// A checked description and the text that it was made from.
pub struct LoadedFormat {
    /// The checked description.
    pub description: Description,
    /// Its text, for the run folder.
    pub text: String,
}

/// Loads a shipped description by name, or a TOML file, with these parameters set.
pub fn load(what: &str, parameters: &BTreeMap<String, u64>) -> Result<LoadedFormat, Failure> {
    let (name, text) = read(what)?;
    let description =
        Description::load(&name, &text, parameters).map_err(|error| refused(&error))?;
    Ok(LoadedFormat { description, text })
}

/// Returns the failure of a file that people write: the line in question, then the sentence.
pub fn refused(error: &LoadError) -> Failure {
    let sentence = error.to_string();
    let end = if sentence.ends_with(['.', '?']) { "" } else { "." };
    Failure::input(format_args!("{}\n{sentence}{end}", error.excerpt()))
}

/// Returns whether `what` names a file, not a shipped description.
pub fn is_path(what: &str) -> bool {
    what.ends_with(".toml") || what.contains('/')
}

/// Returns the name and the text of a description.
pub fn read(what: &str) -> Result<(String, String), Failure> {
    if !is_path(what) {
        if let Some(text) = shipped::shipped(what) {
            return Ok((format!("formats/{what}.toml"), text.to_string()));
        }
        let guess =
            shipped::nearest(what).map_or(String::new(), |name| format!(" Did you mean `{name}`?"));
        return Err(Failure::input(format_args!(
            "no shipped description is called `{what}`.{guess} `fluxline format list` lists \
             them; a file of yours is named with its ending: {what}.toml."
        )));
    }
    let text = std::fs::read_to_string(Path::new(what)).map_err(|error| {
        Failure::input(format_args!("the description {what} cannot be read: {error}."))
    })?;
    Ok((what.to_string(), text))
}

/// Takes `NAME=INTEGER` arguments apart.
pub fn parameters(arguments: &[String]) -> Result<BTreeMap<String, u64>, Failure> {
    arguments
        .iter()
        .map(|argument| {
            let parts = argument.split_once('=');
            let value = parts.and_then(|(_, value)| value.parse().ok());
            match (parts, value) {
                (Some((name, _)), Some(value)) => Ok((name.to_string(), value)),
                _ => Err(Failure::input(format_args!(
                    "--set {argument} is not NAME=INTEGER; write for example --set count=64."
                ))),
            }
        })
        .collect()
}
