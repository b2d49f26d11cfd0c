//! `fluxline bench shm:// --only stores --save`: keeps the crossover for programs that open the
//! link.

use std::path::PathBuf;

use fluxline::measured::{self, Measured, MeasuredError};
use fluxline_bench::kind::ExperimentKind;
use fluxline_bench::papers::stores;
use fluxline_bench::result::Report;
use fluxline_bench::statistics::median;

use crate::bench_arguments::{BenchArguments, BenchLink};
use crate::failure::Failure;

/// The file that keeps the crossover, and its content.
pub struct CrossoverFile {
    path: PathBuf,
    link: &'static str,
    measured: Measured,
}

impl CrossoverFile {
    /// Reads the file of `--save`; `None`: the option is absent. It runs before any measurement, so
    /// that an unreadable file or a link without a crossover is reported at once.
    pub fn of(
        link: &BenchLink,
        arguments: &BenchArguments,
        entries: &[&ExperimentKind],
    ) -> Result<Option<CrossoverFile>, Failure> {
        let scheme = link.link.scheme();
        if scheme == "shm" {
            Measured::load().map_err(|error| input(&error))?;
        }
        let Some(given) = &arguments.save else { return Ok(None) };
        if !entries.iter().any(|entry| entry.name == "stores") {
            return Err(Failure::failed(
                "--save keeps the result of the experiment stores; add --only stores.",
            ));
        }
        if scheme != "shm" {
            return Err(Failure::failed(format_args!(
                "{scheme}:// maps no peer's memory, so it has no crossover to keep; measure \
                 shm://."
            )));
        }
        let path = given.clone().or_else(measured::default_path);
        let path = path.ok_or_else(|| input(&MeasuredError::NoPlace))?;
        let measured = Measured::read(&path).map_err(|error| input(&error))?;
        Ok(Some(CrossoverFile { path, link: scheme, measured }))
    }

    /// Keeps the crossover of the report. Returns a sentence about it.
    pub fn keep(mut self, report: &Report) -> Result<String, Failure> {
        let of_stores = report.experiments.iter().find(|one| one.name == "stores");
        let fact =
            of_stores.and_then(|one| one.facts.iter().find(|fact| fact.label == stores::CROSSOVER));
        let Some(bytes) = fact.and_then(|fact| median(&fact.samples)) else {
            return Err(Failure::failed("no crossover was found; nothing is kept."));
        };
        self.measured.set(self.link, bytes as u64);
        self.measured.write(&self.path).map_err(|error| input(&error))?;
        let place = self.path.display();
        Ok(format!("{place} now says that stores take less up to {bytes} B on {}://", self.link))
    }
}

fn input(error: &MeasuredError) -> Failure {
    Failure::input(format_args!("{error}."))
}
