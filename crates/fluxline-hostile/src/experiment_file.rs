//! Experiment files from strangers: a checked experiment, or one sentence.

use fluxline_daq::InputError;
use fluxline_daq::experiment::Experiment;

/// Reads any text as an experiment file.
///
/// # Panics
/// When the error is not a sentence, or an experiment that was accepted cannot be written down.
pub fn experiment_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Experiment::parse("fuzz.toml", text) {
        Ok(experiment) => {
            let document = serde_json::to_value(&experiment).expect("it goes into run.json");
            assert!(document["source"].as_array().is_some_and(|sources| !sources.is_empty()));
        }
        Err(error) => check_sentence(&error),
    }
}

fn check_sentence(error: &InputError) {
    let message = error.to_string();
    assert!(message.contains("fuzz.toml:"), "it names the file and the line: {message}");
    assert!(message.ends_with(['.', '?']), "it is a sentence: {message}");
}
