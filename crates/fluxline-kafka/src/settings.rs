//! Settings of a connection: brokers, and the options of the client library.

use std::collections::BTreeMap;
use std::path::Path;

/// The settings of a connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Addresses of brokers, separated by commas.
    pub brokers: String,
    /// Options by name, such as `security.protocol`.
    pub options: BTreeMap<String, String>,
}

/// Passwords stay out of logs and panics.
impl std::fmt::Debug for Settings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.options.keys().collect();
        out.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .field("options", &names)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Joins the options of an experiment with those of a file; the file's come first.
    ///
    /// Errors: a sentence with the file, the line and what to write.
    pub fn read(
        brokers: &str,
        options: &BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> Result<Settings, String> {
        let mut options = options.clone();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("{} cannot be read ({error}).", file.display()))?;
            options.extend(parse(&file.display().to_string(), &text)?);
        }
        Ok(Settings { brokers: brokers.to_owned(), options })
    }
}

/// Reads `name=value` lines; lines that begin with `#` are comments.
fn parse(file: &str, text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut options = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once('=').filter(|pair| !pair.0.trim().is_empty());
        let Some((name, value)) = pair else {
            return Err(format!(
                "{file}:{number}: this line is not a setting; write NAME=VALUE, such as \
                 security.protocol=SSL."
            ));
        };
        options.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_is_read_and_its_mistakes_have_their_line() {
        let text = "# of the lab\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n";
        let options = parse("k.properties", text).expect("settings");
        assert_eq!(options["sasl.password"], "a=b");
        assert_eq!(options["security.protocol"], "SASL_SSL");
        for wrong in ["x\n", "=5", "\n\nno setting"] {
            let said = parse("k.properties", wrong).expect_err("a mistake");
            assert!(said.starts_with("k.properties:") && said.contains("NAME=VALUE"), "{said}");
            assert!(!said.contains("no setting"), "a line may be a password: {said}");
        }
    }

    #[test]
    fn passwords_are_not_printed() {
        let options = BTreeMap::from([("sasl.password".to_owned(), "hunter2".to_owned())]);
        let settings = Settings { brokers: "a:1".to_owned(), options };
        let shown = format!("{settings:?}");
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
