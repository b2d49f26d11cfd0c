//! Files as sources: captures and raw payloads, each read by a thread of its own.
//!
//! The thread keeps a given rate; recorded speed is the readout's to keep, since all files share
//! its clock (`held.rs`).

use std::path::PathBuf;
use std::time::Duration;

use fluxline::clock;
use fluxline::ring::{Producer, SLOT_BYTES_ANY};
use fluxline_core::{Datagram, Moment, Span};
use fluxline_daq::capture::raw::RawReader;
use fluxline_daq::capture::replay::{Pace, Speed};
use fluxline_daq::capture::{CaptureError, CaptureReader, parts};
use fluxline_daq::experiment::Source;
use fluxline_daq::merge::Times;

use super::push::push;
use super::{Feed, InputEnd, OpenInput, new_ring};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::ring::{InputRing, OnDemandRing, Replay};
use crate::stop::Stop;

/// The longest sleep while waiting for a datagram's time, so that Ctrl-C is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The open files of one source.
pub(crate) struct FileSource {
    reader: Reader,
    speed: Speed,
}

/// Files that fill a ring.
struct FileFeed {
    files: FileSource,
    ring: Producer,
    name: String,
}

/// Opens the files of a source.
pub(super) fn open(source: &Source) -> Result<OpenInput, Error> {
    let files = FileSource::open(source)?;
    let (config, ring, consumer) = new_ring(source, SLOT_BYTES_ANY)?;
    let name = source.name.clone();
    let view = OnDemandRing::new(&name, consumer, files.times(), files.replay());
    let feed = FileFeed { files, ring, name };
    Ok(OpenInput::new(source, InputRing::OnDemand(view), config.memory_bytes(), feed))
}

/// A reader of the packets of files.
pub(crate) enum Reader {
    Capture(Box<CaptureReader>),
    Raw(Box<RawReader>),
}

impl FileSource {
    /// Opens the files that `source` names.
    pub fn open(source: &Source) -> Result<FileSource, Error> {
        let wrong =
            |error: CaptureError| Error::input(format_args!("source `{}`: {error}", source.name));
        if let Some(pcap) = &source.pcap {
            let files = parts::by_first_frame(pcap.file.found(&source.name)?).map_err(wrong)?;
            let (first, following) = first_of(files, &source.name)?;
            let mut reader = CaptureReader::open_parts(&first, following).map_err(wrong)?;
            reader.only_ports(&pcap.ports);
            reader.check_sums(pcap.check_sums());
            let reader = Reader::Capture(Box::new(reader));
            return Ok(FileSource { reader, speed: pcap.speed });
        }
        let Some(raw) = &source.raw else {
            return Err(Error::input(format_args!("source `{}` has no link.", source.name)));
        };
        let mut files = raw.file.found(&source.name)?;
        parts::by_name(&mut files);
        let (first, following) = first_of(files, &source.name)?;
        let reader = RawReader::open_parts(&first, following, raw.framing()).map_err(wrong)?;
        let reader = Reader::Raw(Box::new(reader));
        Ok(FileSource { reader, speed: raw.speed })
    }

    /// Returns the time of the first packet; `None` if the files are empty or have no times.
    pub fn first_time(mut self, name: &str) -> Result<Option<Moment>, Error> {
        let wrong = |error: CaptureError| Error::input(format_args!("source `{name}`: {error}"));
        let time = self.reader.next().map_err(wrong)?.map(|datagram| datagram.time);
        Ok(time.filter(|time| *time != Moment::default()))
    }

    /// Returns its pace in virtual time: what was recorded at `first` is due at `began`.
    pub fn virtual_pace(&self, first: Moment, began: Moment) -> Pace {
        Pace::since(self.speed, first, began)
    }

    /// Returns its packets.
    pub fn into_reader(self) -> Reader {
        self.reader
    }

    /// Returns the kind of times of its packets.
    fn times(&self) -> Times {
        match self.reader {
            Reader::Capture(_) => Times::Captured,
            Reader::Raw(_) => Times::Absent,
        }
    }

    /// Returns the speed of its replay by the clock that all inputs share.
    fn replay(&self) -> Replay {
        match self.speed {
            Speed::Recorded => Replay::Recorded,
            Speed::Full | Speed::Rate(_) => Replay::AtOnce,
        }
    }

    /// Returns the pace of its own thread; `None`: as fast as possible.
    fn pace(&self) -> Option<Pace> {
        match self.speed {
            Speed::Rate(_) => Some(Pace::new(self.speed)),
            Speed::Full | Speed::Recorded => None,
        }
    }
}

fn first_of(mut files: Vec<PathBuf>, source: &str) -> Result<(PathBuf, Vec<PathBuf>), Error> {
    if files.is_empty() {
        return Err(Error::input(format_args!(
            "source `{source}`: `file` names no file; write a name, a pattern or a list of them."
        )));
    }
    Ok((files.remove(0), files))
}

impl Reader {
    /// Returns the next packet.
    pub fn next(&mut self) -> Result<Option<Datagram<'_>>, CaptureError> {
        match self {
            Reader::Capture(reader) => reader.next(),
            Reader::Raw(reader) => reader.next(),
        }
    }

    /// Adds the reader's counters to the input's.
    pub fn close(&self, end: &mut InputEnd, monitor: &Monitor) {
        match self {
            Reader::Raw(reader) => {
                end.counters.frames_unusable = u64::from(reader.cut().is_some());
                monitor.note(reader.cut());
            }
            Reader::Capture(reader) => {
                let counters = reader.counters();
                monitor.note(reader.cut());
                end.counters.other_traffic = counters.other_traffic();
                end.counters.frames_unusable = counters.unusable();
                end.counters.check_sum_wrong = counters.check_sum_wrong;
                let rows = counters.rows().map(|(row, value)| (row.name.into(), value.into()));
                end.capture = Some(serde_json::Value::Object(rows.collect()));
            }
        }
    }
}

impl Feed for FileFeed {
    /// Reads the files into the ring until their end, or until the run is over.
    fn run(self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let FileFeed { files, mut ring, name } = *self;
        let (mut pace, mut reader) = (files.pace(), files.reader);
        let mut end = InputEnd::default();
        loop {
            match reader.next() {
                Ok(Some(datagram)) => {
                    if !wait_until_due(&mut pace, datagram.time, stop)
                        || !push(&mut ring, &datagram, stop)
                    {
                        break;
                    }
                    end.counters.datagrams += 1;
                    end.counters.bytes += datagram.bytes.len() as u64;
                }
                Ok(None) => break,
                // What can be read goes on behind it: the next file, or the end.
                Err(error) => monitor.fault(format_args!("source `{name}`: {error}")),
            }
        }
        reader.close(&mut end, monitor);
        end.ring = ring.counters().clone();
        end
    }
}

/// Waits for a datagram's time; `false` when the run is over first.
fn wait_until_due(pace: &mut Option<Pace>, time: Moment, stop: &Stop) -> bool {
    loop {
        if stop.is_over() {
            return false;
        }
        match pace.as_mut().and_then(|pace| pace.due(time, clock::monotonic())) {
            None | Some(Span::ZERO) => return true,
            Some(wait) => std::thread::sleep(SLEEP_MAX.min(Duration::from_nanos(wait.as_ns()))),
        }
    }
}
