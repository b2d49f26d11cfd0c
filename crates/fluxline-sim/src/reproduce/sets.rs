//! The list of all sets of published experiments, and their files.

use std::sync::OnceLock;

use fluxline_toml::LoadError;

use super::pair::BadStand;
use super::published::{Fact, Published};
use super::set::{Comparison, Facts, Finding, Judged, Parameter, Set, Trials};
use super::set::{figure, number, question};
use super::{atoll, ethernet, links, myrinet, sci};

macro_rules! set {
    ($module:ident) => {
        &Set {
            name: stringify!($module),
            file: concat!("published/", stringify!($module), ".toml"),
            text: include_str!(concat!("../../published/", stringify!($module), ".toml")),
            run: $module::run,
            value: $module::value,
        }
    };
}

/// All sets.
pub const SETS: [&Set; 5] = [set!(sci), set!(atoll), set!(myrinet), set!(links), set!(ethernet)];

/// The error of an unknown set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a set of published experiments; give one of: {}",
    SETS.map(|set| set.name).join(", ")
)]
pub struct UnknownSet {
    /// The name that was given.
    pub name: String,
}

/// Reads the files of all sets, once.
fn all() -> Result<&'static [Published; 5], LoadError> {
    static ALL: OnceLock<Result<[Published; 5], LoadError>> = OnceLock::new();
    let read = || {
        let mut files = Vec::new();
        for set in SETS {
            files.push(Published::read(set.file, set.text)?);
        }
        let names = files.iter().flat_map(|file| &file.facts).map(|fact| fact.id.as_str());
        let names: Vec<&str> = names.collect();
        for (set, file) in SETS.iter().zip(&files) {
            if let Some(error) = file.unknown_fact(set.file, set.text, &names) {
                return Err(error);
            }
        }
        Ok(files.try_into().expect("one file for each set"))
    };
    ALL.get_or_init(read).as_ref().map_err(Clone::clone)
}

impl Set {
    /// Returns the set of a name.
    ///
    /// # Errors
    /// [`UnknownSet`]; it lists all sets.
    pub fn named(name: &str) -> Result<&'static Set, UnknownSet> {
        let found = SETS.into_iter().find(|set| set.name == name);
        found.ok_or_else(|| UnknownSet { name: name.to_string() })
    }

    /// Reads the file of the set.
    ///
    /// # Errors
    /// A mistake in a file: the line, the key, and what to write.
    pub fn published(&self) -> Result<&'static Published, LoadError> {
        let place = SETS.iter().position(|set| set.name == self.name);
        Ok(&all()?[place.expect("a set of the list")])
    }

    /// Runs the models and judges each fact.
    ///
    /// # Errors
    /// [`BadStand`]: a preset or a file is invalid.
    pub fn compare(&'static self) -> Result<Comparison, BadStand> {
        let published = self.published()?;
        let facts = Facts(all()?.iter().flat_map(|file| &file.facts).collect());
        let run = (self.run)(&facts)?;
        for (id, _) in &run.numbers {
            let is_own = published.facts.iter().any(|fact| fact.id == *id);
            assert!(is_own, "a model has a number for `{id}`; {} has no such fact", self.file);
        }
        let parameters = self.parameters(published, &facts)?;
        let finding = |fact: &'static Fact| {
            let model = number(fact, &run).ok_or_else(|| self.no_model(&fact.id))?;
            Ok(Finding { fact, model })
        };
        let findings: Vec<Finding> =
            published.facts.iter().map(finding).collect::<Result<_, BadStand>>()?;
        let judged = findings.iter().map(|&one| {
            let is_repeat = |other: &&Finding| other.fact.same_as.as_ref() == Some(&one.fact.id);
            let repeats: Vec<Finding> = findings.iter().filter(is_repeat).copied().collect();
            Judged::of(one, &repeats, &parameters)
        });
        let judged = judged.collect();
        let figures = run.figures.into_iter().map(|(id, curves)| figure(published, id, curves));
        let rows = run.trials.into_iter();
        let trials = rows.map(|(id, rows)| Trials::of(question(published, id), rows)).collect();
        Ok(Comparison {
            set: self,
            published,
            figures: figures.collect(),
            facts: judged,
            parameters,
            trials,
        })
    }

    fn parameters(
        &self,
        published: &'static Published,
        facts: &Facts,
    ) -> Result<Vec<Parameter>, BadStand> {
        let mut all = Vec::new();
        for one in &published.parameters {
            let known = (self.value)(&one.model, &one.name);
            let (model, name) = (&one.model, &one.name);
            let value = match (known, &one.value) {
                (Some(known), None) => known,
                (None, Some(value)) => value.clone(),
                (Some(_), Some(_)) => {
                    let text = format!("`{model}: {name}`: leave out the value; the model has it");
                    return Err(BadStand::Published(format!("{}: {text}", self.file)));
                }
                (None, None) => {
                    let text =
                        format!("`{model}: {name}`: the model does not know it; write a value");
                    return Err(BadStand::Published(format!("{}: {text}", self.file)));
                }
            };
            let facts = one.facts.iter().map(|id| facts.get(id)).collect();
            let (machine, origin, reason) = (one.model.as_str(), one.origin, one.reason.as_str());
            all.push(Parameter { machine, name, value, origin, reason, facts });
        }
        Ok(all)
    }

    fn no_model(&self, id: &str) -> BadStand {
        let text = "no model gives a number for it; write `at`, a position in a figure";
        BadStand::Published(format!("{}: the fact `{id}`: {text}", self.file))
    }
}
