//! Reads published curves: a table of rates (CSV), or NetPIPE's own np.out.

use super::{Network, Trip};

/// Bits of a NetPIPE megabit. Source: netpipe.c.
const MEGABIT: f64 = 1_048_576.0;
/// Curves, and sizes of each, that are read at most.
const CURVES_MAX: usize = 64;
const SIZES_MAX: usize = 100_000;

/// The reason why a file has no curves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file}, line {line}: {problem}; write a line `bytes,NAME,NAME,...`, then sizes in bytes and \
     rates in NetPIPE's Mbps (2^20 bit/s), or give an np.out of NetPIPE"
)]
pub struct CurveError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The mistake.
    pub problem: String,
}

/// Reads the curves of a file; `names` are those to keep, none: all. Empty lines, lines
/// that begin with `#`, empty cells and rates of 0 are skipped.
///
/// Errors: [`CurveError`].
pub fn read(file: &str, text: &str, names: &[&str]) -> Result<Vec<Network>, CurveError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let wrong = |line: usize, problem: String| CurveError { file: file.to_owned(), line, problem };
    let Some((number, first)) = lines.peek().copied() else {
        return Err(wrong(1, "the file has no numbers".to_owned()));
    };
    let mut networks = match first.strip_prefix("bytes,") {
        Some(names) => {
            lines.next();
            names.split(',').map(|name| network(name.trim(), file, true)).collect()
        }
        None => vec![network(file, file, false)],
    };
    if networks.len() > CURVES_MAX {
        return Err(wrong(number, format!("more than {CURVES_MAX} curves")));
    }
    for (number, line) in lines {
        add(&mut networks, line).map_err(|problem| wrong(number, problem))?;
    }
    if let Some(missing) = names.iter().find(|name| !networks.iter().any(|of| of.name == **name)) {
        let known: Vec<&str> = networks.iter().map(|of| of.name.as_str()).collect();
        let problem =
            format!("{missing:?} is not a curve of the file; it has {}", known.join(", "));
        return Err(wrong(number, problem));
    }
    networks.retain(|of| !of.trips.is_empty() && (names.is_empty() || names.contains(&&*of.name)));
    if networks.is_empty() {
        return Err(wrong(number, "no curve has a rate above 0".to_owned()));
    }
    Ok(networks)
}

fn network(name: &str, file: &str, is_coarse: bool) -> Network {
    let short = std::path::Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    let origin = format!("published, {short}");
    Network { name: name.to_owned(), origin, is_coarse, trips: Vec::new() }
}

/// Adds the points of a line to their curves. Errors: a sentence.
fn add(networks: &mut [Network], line: &str) -> Result<(), String> {
    let is_table = line.contains(',');
    let cells: Vec<&str> = if is_table {
        line.split(',').map(str::trim).collect()
    } else {
        line.split_whitespace().collect()
    };
    let number = |cell: &str| {
        let value = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        value.ok_or_else(|| format!("{cell:?} is not a number from 0 on"))
    };
    let bytes = number(cells.first().copied().unwrap_or_default())?;
    if bytes < 1.0 {
        return Err(format!("a message of {bytes} bytes"));
    }
    if !is_table {
        let [_, _, seconds] = cells[..] else { return Err("not three columns".to_owned()) };
        let [network] = networks else { return Err("not a line of the table".to_owned()) };
        return push(network, Trip { bytes, seconds: number(seconds)? });
    }
    if cells.len() != networks.len() + 1 {
        return Err(format!("{} cells instead of {}", cells.len(), networks.len() + 1));
    }
    for (network, cell) in networks.iter_mut().zip(&cells[1..]) {
        let megabits = if cell.is_empty() { 0.0 } else { number(cell)? };
        if megabits > 0.0 {
            push(network, Trip { bytes, seconds: bytes * 8.0 / (megabits * MEGABIT) })?;
        }
    }
    Ok(())
}

fn push(network: &mut Network, trip: Trip) -> Result<(), String> {
    if network.trips.len() >= SIZES_MAX {
        return Err(format!("more than {SIZES_MAX} sizes"));
    }
    if network.trips.last().is_some_and(|last| last.bytes >= trip.bytes) {
        return Err("sizes must ascend".to_owned());
    }
    if trip.seconds > 0.0 {
        network.trips.push(trip);
    }
    Ok(())
}
