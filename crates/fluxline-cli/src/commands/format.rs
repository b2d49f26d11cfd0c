//! `fluxline format list|show|new|wireshark|numpy`: what follows from a description, or makes one.

use std::collections::BTreeMap;

use fluxline_daq::draft::Draft;
use fluxline_packet::diagram::Diagram;
use fluxline_packet::wireshark::Carrier;
use fluxline_packet::{Description, numpy, shipped, wireshark};
use serde_json::json;

use super::packet_file::PacketFile;
use crate::failure::Failure;
use crate::format_arguments::{
    FormatArguments, NewArguments, PacketFileArguments, WiresharkArguments,
};
use crate::{format_arguments, inform, say, say_text};
use fluxline_daq::formats;

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
    // The command line gives one of the two.
    let link = arguments.link_type.and_then(Carrier::link_type);
    let ports = arguments.ports.iter().map(|port| Carrier::UdpPort(*port));
    let carriers: Vec<Carrier> = link.into_iter().chain(ports).collect();
    print_text("lua", &wireshark::dissector_on(&load(&arguments.format)?, &carriers), json)
}

/// Writes the NumPy dtypes.
pub fn numpy(arguments: &FormatArguments, json: bool) -> Result<(), Failure> {
    print_text("python", &numpy::dtypes(&load(arguments)?), json)
}

/// Drafts a description from a file of packets.
pub fn new(arguments: &NewArguments, json: bool) -> Result<(), Failure> {
    let file = &arguments.file;
    let port = busiest_port(file)?;
    let mut packets = PacketFile::open(file)?;
    let mut draft = Draft::default();
    while let Some(datagram) = packets.next()? {
        if port.is_none_or(|port| port == datagram.port) {
            draft.add(&datagram);
        }
    }
    let origin = match port {
        Some(port) => format!("{}, UDP port {port}", packets.name()),
        None => packets.name().to_string(),
    };
    let Some(text) = draft.describe(&origin) else {
        return Err(Failure::input(format_args!(
            "{origin} holds {} packets, none of them empty is needed for a draft: check --port and \
             the file.",
            draft.packets()
        )));
    };
    print_text("toml", &text, json)
}

/// The port that most datagrams went to, where the file has ports; packets to others would mix two
/// formats.
fn busiest_port(file: &PacketFileArguments) -> Result<Option<u16>, Failure> {
    if let [only] = file.ports[..] {
        return Ok(Some(only));
    }
    let mut packets = PacketFile::open(file)?;
    let mut ports = BTreeMap::<u16, u64>::new();
    while let Some(datagram) = packets.next()? {
        *ports.entry(datagram.port).or_default() += 1;
    }
    if ports.len() > 1 {
        let all: Vec<String> =
            ports.iter().map(|(port, count)| format!("{port} ({count} packets)")).collect();
        inform!("note: UDP ports {}; the busiest is drafted, --port chooses.", all.join(", "));
    }
    let busiest = ports.iter().max_by_key(|(port, count)| (**count, std::cmp::Reverse(**port)));
    Ok(busiest.map(|(port, _)| *port).filter(|port| *port != 0))
}

/// Prints a program text, or a JSON document with it as its one member.
fn print_text(language: &str, text: &str, json: bool) -> Result<(), Failure> {
    if json {
        super::print_json(&json!({ language: text }));
    } else {
        say_text!("{text}");
    }
    Ok(())
}

fn load(arguments: &FormatArguments) -> Result<Description, Failure> {
    let parameters = format_arguments::parameters(&arguments.parameters)?;
    Ok(formats::load(&arguments.format, &parameters)?.description)
}
