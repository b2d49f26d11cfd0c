//! Reads a scenario: its text, the files that it names, and the scenarios of its sweep.

use std::path::Path;

use fluxline_toml::{Places, TomlText};
use toml::Table;

use super::effect::{self, Wrong};
use super::files::{self, Files};
use super::{Refused, Scenario, sweep};

impl Scenario {
    /// Reads a scenario that names no files. Messages refer to it as `name`.
    ///
    /// # Errors
    /// One sentence that names the line or the key, and the correction.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, Refused> {
        Reader { source: TomlText { file: name, text }, files: &files::none, swept: None }.read()
    }

    /// Reads a scenario and the files that it names, which are relative to its own directory.
    ///
    /// # Errors
    /// One sentence that names the file, the line or the key, and the correction.
    pub fn load(file: &Path) -> Result<Scenario, Refused> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Refused(format!("{name} cannot be read: {error}.")))?;
        let directory = file.parent().unwrap_or(Path::new(""));
        let read = |other: &str| files::read(directory, other);
        Reader { source: TomlText { file: &name, text: &text }, files: &read, swept: None }.read()
    }
}

/// The text of a scenario, and the reader of other files.
struct Reader<'a> {
    source: TomlText<'a>,
    files: &'a Files<'a>,
    /// The value of a sweep that is read.
    swept: Option<Swept<'a>>,
}

/// A value of a sweep.
#[derive(Clone, Copy)]
struct Swept<'a> {
    key: &'a str,
    value: &'a str,
}

impl Reader<'_> {
    fn read(&self) -> Result<Scenario, Refused> {
        let file: Table = toml::from_str(self.source.text)
            .map_err(|error| Refused::from(&self.source.toml_error(&error)))?;
        effect::check_known(&file).map_err(|wrong| self.at_key(&wrong))?;
        // Types are checked on the text itself, so that mistakes have a line.
        let plain: Scenario = toml::from_str(self.source.text)
            .map_err(|error| Refused::from(&self.source.toml_error(&error)))?;
        if !file.contains_key("sweep") {
            return self.finish(plain, &file);
        }
        let values = plain.sweep.values().map_err(|wrong| self.at(&wrong))?;
        let mut variants = Vec::new();
        for value in values {
            let changed = sweep::with(&file, &plain.sweep.key, &value);
            let changed = changed.map_err(|wrong| self.at(&wrong))?;
            effect::check_known(&changed).map_err(|wrong| self.at_key(&wrong))?;
            let text = sweep::shown(&value);
            let scenario = Scenario::deserialize_from(&changed).map_err(|problem| {
                let path = "sweep.values".to_owned();
                let key = &plain.sweep.key;
                let sentence = format!("the value {text} does not fit `{key}`: {problem}");
                self.at(&Wrong { path, sentence })
            })?;
            let swept = Some(Swept { key: &plain.sweep.key, value: &text });
            let scenario = Reader { swept, ..*self }.finish(scenario, &changed)?;
            variants.push(super::Variant { value: text, scenario });
        }
        let sweep = plain.sweep.clone();
        let first = variants.first().map(|variant| variant.scenario.clone());
        let mut scenario = first.unwrap_or(plain);
        scenario.sweep = sweep;
        scenario.variants = variants;
        Ok(scenario)
    }

    /// Checks a scenario, and reads the files that it names.
    fn finish(&self, mut scenario: Scenario, file: &Table) -> Result<Scenario, Refused> {
        effect::check_effect(file, &scenario).map_err(|wrong| self.at(&wrong))?;
        files::fill_graph(&mut scenario, self.files).map_err(|wrong| self.at(&wrong))?;
        scenario.check_size().map_err(|problem| self.about_key(&problem))?;
        files::fill_trace(&mut scenario, self.files).map_err(|wrong| self.at(&wrong))?;
        scenario.check().map_err(|problem| self.about_key(&problem))?;
        Ok(scenario)
    }

    /// Finds the line of a problem, whose sentence names its key first: `traffic.hot` is 7.
    fn about_key(&self, Refused(problem): &Refused) -> Refused {
        let key = problem.trim_start_matches('`').split(['`', ' ']).next().unwrap_or_default();
        self.at(&Wrong { path: key.to_owned(), sentence: problem.clone() })
    }

    fn at(&self, wrong: &Wrong) -> Refused {
        let places = Places::of(self.source.text);
        let Wrong { path, sentence } = wrong;
        if let Some(Swept { key, value }) = self.swept {
            let path = if path == key { "sweep.key" } else { path };
            let sentence = sentence.trim_end_matches('.');
            let sentence = format!("{sentence} (in the sweep, with {key} = {value}).");
            return Refused::from(&self.source.error(places.value(path), sentence));
        }
        Refused::from(&self.source.error(places.value(path), sentence.clone()))
    }

    /// Shows a mistake in the name of a key.
    fn at_key(&self, Wrong { path, sentence }: &Wrong) -> Refused {
        let span = Places::of(self.source.text).key(path);
        Refused::from(&self.source.error(span, sentence.clone()))
    }
}

impl Scenario {
    /// Reads a scenario from keys and values.
    fn deserialize_from(file: &Table) -> Result<Scenario, String> {
        serde::Deserialize::deserialize(file.clone())
            .map_err(|error: toml::de::Error| error.message().replace('\n', ", "))
    }
}
