//! `fluxline format fpga` and `fluxline fpga`: gateware for a description, and a board's registers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use fluxline::udp::{AccessError, RegisterWindow};
use fluxline_daq::formats;
use fluxline_packet::fpga::{self, GatewareFile, GatewareLink, GatewareOptions, registers};
use serde_json::json;

use crate::failure::Failure;
use crate::format_arguments::{self, GatewareArguments, GatewareLinkName};
use crate::fpga_arguments::{BoardArguments, ReadArguments, WriteArguments};
use crate::say;

/// The port of the register window, unless the gateware was built with another.
const REGISTER_PORT: u16 = 6007;
/// The file that shows that this command wrote a folder.
const MARK: &str = "rtl/flx_layout.sv";

/// Writes the gateware for a description.
pub fn gateware(arguments: &GatewareArguments, json: bool) -> Result<(), Failure> {
    let parameters = format_arguments::parameters(&arguments.format.parameters)?;
    let loaded = formats::load(&arguments.format.format, &parameters)?;
    let options = GatewareOptions {
        link: match arguments.link {
            GatewareLinkName::Udp => GatewareLink::Udp,
            GatewareLinkName::Roce => GatewareLink::Roce,
        },
        packet: arguments.packet.as_deref(),
        payload_bytes: arguments.payload_bytes,
        mtu: arguments.mtu,
        fifo_bytes: arguments.fifo_bytes,
    };
    let files = fpga::gateware(&loaded.description, &loaded.text, &options)
        .map_err(|reason| Failure::input(format_args!("{}: {reason}.", arguments.format.format)))?;
    let folder = &arguments.output;
    check_folder(folder)?;
    for file in &files {
        write(folder, file).map_err(|error| {
            Failure::files(format_args!(
                "{} cannot be written: {error}.",
                folder.join(file.path).display()
            ))
        })?;
    }
    if json {
        let paths: Vec<_> = files.iter().map(|file| file.path).collect();
        super::print_json(&json!({ "folder": folder, "files": paths }));
        return Ok(());
    }
    say!("{} files in {}", files.len(), folder.display());
    say!("Next: make -C {0} venv, then make -C {0} sim", folder.display());
    Ok(())
}

/// Refuses a folder with files of somebody else.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let is_foreign = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some() && !folder.join(MARK).exists(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    match is_foreign {
        false => Ok(()),
        true => Err(Failure::input(format_args!(
            "{} is not an empty folder, nor one that this command wrote; name another with -o.",
            folder.display()
        ))),
    }
}

fn write(folder: &Path, file: &GatewareFile) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, &file.text)?;
    let mode = if file.is_program { 0o755 } else { 0o644 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))
}

/// Shows the ledger and the settings of a board.
pub fn status(arguments: &BoardArguments, json: bool) -> Result<(), Failure> {
    let mut window = open(arguments)?;
    let address = |name| registers::named(name).map_or(u32::MAX, |register| register.address);
    let identity = window.read(address("IDENTITY")).map_err(failure)?;
    if identity != registers::IDENTITY_VALUE {
        return Err(Failure::link(format_args!(
            "the board has the register map {identity:#010x}, and this program knows {:#010x}; \
             use the version of `fluxline` that made its gateware.",
            registers::IDENTITY_VALUE
        )));
    }
    window.write(address("SNAPSHOT"), 0).map_err(failure)?;
    let mut read = |name| window.read(address(name)).map(u64::from).map_err(failure);
    let mut long = |low, high| Ok::<u64, Failure>(read(low)? | read(high)? << 32);
    let taken = long("TAKEN_LOW", "TAKEN_HIGH")?;
    let dropped = long("DROPPED_LOW", "DROPPED_HIGH")?;
    let sent = long("SENT_LOW", "SENT_HIGH")?;
    let waiting = read("WAITING")?;
    let closes = taken == dropped + sent + waiting;
    let peer = Ipv4Addr::from(read("PEER_IP")? as u32);
    let takes = read("CONTROL")? & 1 == 1;
    let missed = read("REQUESTS_MISSED")?;
    let wrong = read("FRAMES_WRONG")?;
    if json {
        super::print_json(&json!({
            "taken": taken, "dropped": dropped, "sent": sent, "waiting": waiting,
            "closes": closes, "takes_samples": takes, "peer": peer.to_string(),
            "requests_missed": missed, "frames_wrong": wrong,
        }));
    } else {
        let sum = if closes { "=" } else { "IS NOT" };
        say!(
            "took {taken} blocks {sum} dropped in the FIFO {dropped} + sent {sent} + waiting \
              {waiting}"
        );
        say!("sends to {peer}; takes samples: {}", if takes { "yes" } else { "no" });
        say!("requests missed {missed}, wrong {wrong}");
    }
    match closes {
        true => Ok(()),
        false => Err(Failure::ledger(format_args!(
            "the board's ledger does not close, a defect of its gateware."
        ))),
    }
}

/// Reads a register.
pub fn read(arguments: &ReadArguments, json: bool) -> Result<(), Failure> {
    let address = address_of(&arguments.register)?;
    let value = open(&arguments.board)?.read(address).map_err(failure)?;
    if json {
        super::print_json(&json!({ "address": address, "value": value }));
    } else {
        say!("{value:#010x}  {value}");
    }
    Ok(())
}

/// Writes a register.
pub fn write_register(arguments: &WriteArguments, json: bool) -> Result<(), Failure> {
    let address = address_of(&arguments.what.register)?;
    let value = value_of(&arguments.value)?;
    open(&arguments.what.board)?.write(address, value).map_err(failure)?;
    if json {
        super::print_json(&json!({ "address": address, "value": value }));
    }
    Ok(())
}

fn failure(error: AccessError) -> Failure {
    Failure::link(format_args!("{error}."))
}

fn open(board: &BoardArguments) -> Result<RegisterWindow, Failure> {
    let text = &board.address;
    let with_port = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, REGISTER_PORT));
    let address = text.parse::<SocketAddr>().or_else(|_| with_port()).map_err(|_| {
        Failure::input(format_args!(
            "`{text}` is not an address; write for example 10.23.0.2 or 10.23.0.2:6007."
        ))
    })?;
    RegisterWindow::open(address).map_err(failure)
}

/// Returns the address of a register that is given by name or by address.
fn address_of(text: &str) -> Result<u32, Failure> {
    if let Some(register) = registers::named(text) {
        return Ok(register.address);
    }
    number(text).ok_or_else(|| {
        let names: Vec<_> = registers::REGISTERS.iter().map(|register| register.name).collect();
        Failure::input(format_args!(
            "no register is called `{text}`; the registers are {}.",
            names.join(", ")
        ))
    })
}

fn value_of(text: &str) -> Result<u32, Failure> {
    let address = || text.parse::<Ipv4Addr>().ok().map(u32::from);
    number(text).or_else(address).ok_or_else(|| {
        Failure::input(format_args!(
            "`{text}` is not a value of 32 bits; write a number such as 12 or 0x1F, or an IPv4 \
             address."
        ))
    })
}

/// Returns the value of a decimal number, or of one with `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
