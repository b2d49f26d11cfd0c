//! `fluxline format list|show|wireshark|numpy`: what follows from a description.

use fluxline_proto::description::diagram::Diagram;
use fluxline_proto::description::wireshark::Carrier;
use fluxline_proto::description::{Description, numpy, shipped, wireshark};
use serde_json::json;

use crate::arguments::{FormatArguments, WiresharkArguments};
use crate::failure::Failure;
use crate::formats;
use crate::{say, say_text};

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
        say!("{name:<width$}  {about}");
    }
    say!("\nNext: fluxline format show srs-vmm3");
    Ok(())
}

/// Draws the packets of a description.
pub fn show(arguments: &FormatArguments, json: bool) -> Result<(), Failure> {
    let diagram = Diagram::of(&load(arguments)?);
    if json {
        super::print_json(&json!(diagram));
    } else {
        say_text!("{diagram}");
    }
    Ok(())
}

/// Writes a Wireshark dissector.
pub fn wireshark(arguments: &WiresharkArguments, json: bool) -> Result<(), Failure> {
    let link = arguments.link_type.and_then(Carrier::link_type);
    // The command line gives one of the two.
    let carrier = link.unwrap_or(Carrier::UdpPort(arguments.port.unwrap_or_default()));
    print_text("lua", &wireshark::dissector_on(&load(&arguments.format)?, carrier), json)
}

/// Writes the NumPy dtypes.
pub fn numpy(arguments: &FormatArguments, json: bool) -> Result<(), Failure> {
    print_text("python", &numpy::dtypes(&load(arguments)?), json)
}

/// A program text as it is, or as the one member of a JSON document.
fn print_text(language: &str, text: &str, json: bool) -> Result<(), Failure> {
    if json {
        super::print_json(&json!({ language: text }));
    } else {
        say_text!("{text}");
    }
    Ok(())
}

fn load(arguments: &FormatArguments) -> Result<Description, Failure> {
    let parameters = formats::parameters(&arguments.parameters)?;
    Ok(formats::load(&arguments.format, &parameters)?.description)
}
