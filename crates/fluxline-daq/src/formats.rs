//! Finds a description by its name: a shipped one, or a TOML file.

use std::collections::BTreeMap;
use std::path::Path;

use fluxline_packet::{Description, shipped};

use crate::input_error::InputError;
use crate::input_file;

/// A checked description and the text that it was made from.
pub struct LoadedFormat {
    /// The checked description.
    pub description: Description,
    /// Its text, for the run folder.
    pub text: String,
}

/// Loads a shipped description by name, or a TOML file, with these parameters set.
pub fn load(what: &str, parameters: &BTreeMap<String, u64>) -> Result<LoadedFormat, InputError> {
    let (name, text) = read(what)?;
    let description = Description::load(&name, &text, parameters)?;
    Ok(LoadedFormat { description, text })
}

/// Returns true when `what` names a file, not a shipped description.
pub fn is_path(what: &str) -> bool {
    what.ends_with(".toml") || what.contains('/')
}

/// Returns the name and the text of a description.
pub fn read(what: &str) -> Result<(String, String), InputError> {
    if !is_path(what) {
        if let Some(text) = shipped::shipped(what) {
            return Ok((format!("formats/{what}.toml"), text.to_string()));
        }
        let guess =
            shipped::nearest(what).map_or(String::new(), |name| format!(" Did you mean `{name}`?"));
        return Err(InputError::new(format_args!(
            "no shipped description is called `{what}`.{guess} `fluxline format list` lists \
             them; a file of yours is named with its ending: {what}.toml."
        )));
    }
    let text = input_file::read_text(Path::new(what)).map_err(|error| {
        InputError::new(format_args!("the description {what} cannot be read: {error}."))
    })?;
    Ok((what.to_string(), text))
}
