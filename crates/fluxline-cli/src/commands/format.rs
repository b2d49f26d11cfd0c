//! `fluxline format list|show|wireshark|numpy`: what follows from a description.

use fluxline_proto::description::{Description, shipped};
use serde_json::json;

use crate::arguments::{FormatArguments, WiresharkArguments};
use crate::failure::Failure;
use crate::formats;

/// Lists the shipped descriptions.
pub fn list(json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for name in shipped::names() {
        let loaded = formats::load(name, &Default::default())?;
        rows.push((name, loaded.description.about().to_string()));
    }
    if json {
        let rows: Vec<_> =
            rows.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        super::print_json(&json!(rows));
        return Ok(());
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, about) in rows {
        println!("{name:<width$}  {about}");
    }
    println!("\nNext: fluxline format show srs-vmm3");
    Ok(())
}

fn load(arguments: &FormatArguments) -> Result<Description, Failure> {
    let parameters = formats::parameters(&arguments.parameters)?;
    Ok(formats::load(&arguments.format, &parameters)?.description)
}
pub fn show(a: &FormatArguments, _: bool) -> Result<(), Failure> {
    load(a).map(|_| ())
}
pub fn wireshark(a: &WiresharkArguments, _: bool) -> Result<(), Failure> {
    load(&a.format).map(|_| ())
}
pub fn numpy(a: &FormatArguments, _: bool) -> Result<(), Failure> {
    load(a).map(|_| ())
}
