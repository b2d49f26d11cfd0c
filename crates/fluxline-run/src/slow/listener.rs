//! The thread that takes slow control values from a UDP socket, and records them.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::clock;
use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::SlowControl;
use fluxline_daq::record::{RunFolder, SLOW_FILE, SlowWriter};
use serde_json::Value;

use super::SlowValues;
use super::table::Arrival;
use crate::error::Error;
use crate::monitor::Monitor;

/// Longest wait for a datagram.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(50);
/// Time between two looks for values whose turn has come.
const SETTLE_PERIOD: Span = Span::from_ms(20);
/// Time between two batches of the file, where there are values.
const FLUSH_PERIOD: Span = Span::from_ms(1_000);
/// Rows that are written before that time.
const ROWS_MAX: usize = 4_096;
/// Largest datagram \[byte\]: what UDP can carry.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Most datagrams that are taken after the run's end: a sender that never pauses does not hold it.
const DRAINED_MAX: usize = 10_000;

/// The open socket, before the run.
#[derive(Debug)]
pub(crate) struct SlowSocket {
    socket: UdpSocket,
    address: SocketAddr,
    values: SlowValues,
}

impl SlowSocket {
    /// Opens the socket of an experiment.
    pub fn open(limits: &SlowControl) -> Result<SlowSocket, Error> {
        let wanted = limits.listen().map_err(Error::input)?;
        let failed = |error| {
            Error::link(format_args!(
                "[slow-control]: UDP port {wanted} cannot be opened ({error}); stop the program \
                 that has it, or write another address as `udp`."
            ))
        };
        let socket = UdpSocket::bind(wanted).map_err(failed)?;
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let values = SlowValues::new(limits.clone(), &address.to_string());
        Ok(SlowSocket { socket, address, values })
    }

    /// Returns the values that it will take.
    pub fn values(&self) -> &SlowValues {
        &self.values
    }

    /// Starts the thread; values go to a file of the folder, if there is one.
    pub fn start(self, folder: Option<&RunFolder>, monitor: &Monitor) -> Listener {
        let (end, ended) = channel();
        let made = folder.map(|folder| SlowWriter::create(folder.directory())).transpose();
        let file = made.unwrap_or_else(|error| {
            monitor.note(Some(no_file(&error)));
            None
        });
        let values = self.values.clone();
        let listening = Listening {
            socket: self.socket,
            address: self.address,
            values: self.values,
            file,
            monitor: monitor.clone(),
            settled: Moment::default(),
            flushed: Moment::default(),
        };
        let thread = std::thread::spawn(move || listening.run(&ended));
        Listener { end, thread, values }
    }
}

fn no_file(error: &dyn Display) -> String {
    format!(
        "{SLOW_FILE} cannot be written, so slow control values are not kept from here on: {error}"
    )
}

/// The running thread. It ends by itself when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    end: Sender<()>,
    thread: JoinHandle<()>,
    values: SlowValues,
}

impl Listener {
    /// Ends the thread, after the datagrams that have come. Returns its part of run.json.
    pub fn end(self) -> Value {
        drop(self.end);
        let has_failed = self.thread.join().is_err(); // its thread has reported the panic
        // Without the values: run.json has a bounded place on the disk.
        let mut document = self.values.document(0);
        document.as_object_mut().map(|of| of.remove("values"));
        if has_failed {
            document["fault"] = "the thread ended by a defect of the program".into();
        }
        document
    }
}

struct Listening {
    socket: UdpSocket,
    address: SocketAddr,
    values: SlowValues,
    file: Option<SlowWriter>,
    monitor: Monitor,
    /// The last times of both works, by the monotonic clock.
    settled: Moment,
    flushed: Moment,
}

impl Listening {
    fn run(mut self, ended: &Receiver<()>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while ended.try_recv() == Err(TryRecvError::Empty) {
            self.receive(&mut buffer);
            self.look();
        }
        let mut left = DRAINED_MAX;
        if self.socket.set_nonblocking(true).is_ok() {
            while left > 0 && self.receive(&mut buffer) {
                left -= 1;
            }
        }
        self.values.table().settle_all();
        self.flush();
        if let Some(Err(error)) = self.file.take().map(SlowWriter::finish) {
            self.monitor.note(Some(no_file(&error)));
        }
    }

    /// Takes a datagram; returns false where none has come.
    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        match self.socket.recv(buffer) {
            Ok(bytes) => {
                let at = Arrival { wall: clock::now(), steady: clock::monotonic() };
                self.values.table().take(&buffer[..bytes], at);
                true
            }
            Err(error) => {
                use ErrorKind::{Interrupted, TimedOut, WouldBlock};
                if !matches!(error.kind(), Interrupted | TimedOut | WouldBlock) {
                    self.monitor.note(Some(format!("slow control: the socket fails: {error}")));
                    std::thread::sleep(RECEIVE_TIMEOUT);
                }
                false
            }
        }
    }

    /// Records what is due.
    fn look(&mut self) {
        let now = clock::monotonic();
        if now.since(self.settled) >= SETTLE_PERIOD {
            self.settled = now;
            self.values.table().settle(now);
        }
        let rows = self.values.table().rows();
        if rows >= ROWS_MAX || now.since(self.flushed) >= FLUSH_PERIOD {
            self.flushed = now;
            self.flush();
        }
    }

    /// Writes the rows that have gathered, and passes the notes on.
    fn flush(&mut self) {
        let dropped = dropped_datagrams(self.address);
        let (rows, notes) = {
            let mut table = self.values.table();
            table.counters.datagrams_dropped = dropped.unwrap_or(table.counters.datagrams_dropped);
            (table.take_rows(), table.take_notes())
        };
        notes.into_iter().for_each(|note| self.monitor.note(Some(note)));
        let written = self.file.as_mut().map(|file| file.write(&rows));
        {
            let mut table = self.values.table();
            match &written {
                Some(Ok(())) => table.counters.recorded += rows.len() as u64,
                _ => table.counters.not_written += rows.len() as u64,
            }
        }
        if let Some(Err(error)) = written {
            self.file = None;
            self.monitor.note(Some(no_file(&error)));
        }
    }
}

/// Returns the number of datagrams that the kernel dropped at a full socket; `None`: not known.
fn dropped_datagrams(address: SocketAddr) -> Option<u64> {
    let (file, hex) = match address {
        SocketAddr::V4(of) => {
            ("/proc/net/udp", format!("{:08X}", u32::from_ne_bytes(of.ip().octets())))
        }
        SocketAddr::V6(of) => {
            let octets = of.ip().octets();
            let words = octets.chunks_exact(4).filter_map(|four| four.try_into().ok());
            let words = words.map(|four| format!("{:08X}", u32::from_ne_bytes(four)));
            ("/proc/net/udp6", words.collect())
        }
    };
    let local = format!("{hex}:{:04X}", address.port());
    let table = std::fs::read_to_string(file).ok()?;
    let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&local))?;
    line.split_whitespace().last()?.parse().ok()
}
