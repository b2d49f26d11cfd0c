//! Files as sources: captures and raw payloads, at recorded speed, a given rate, or full speed.

use std::time::Duration;

use fluxline::clock;
use fluxline::ring::Producer;
use fluxline_daq::capture::raw::RawReader;
use fluxline_daq::capture::replay::{Pace, Speed};
use fluxline_daq::capture::{CaptureError, CaptureReader};
use fluxline_proto::{Datagram, Moment, Span};

use super::end::InputEnd;
use super::live::Live;
use super::push::push;
use super::stop::Stop;
use crate::experiment::{self, Source, SpeedWord};
use crate::failure::Failure;

/// The longest sleep while waiting for a datagram's time, so that Ctrl-C is heard.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// An open file.
pub struct FileSource {
    reader: Reader,
    pace: Pace,
}

enum Reader {
    Capture(Box<CaptureReader>),
    Raw(Box<RawReader>),
}

impl FileSource {
    /// Opens the file that `source` names.
    pub fn open(source: &Source) -> Result<FileSource, Failure> {
        let wrong =
            |error: CaptureError| Failure::input(format_args!("source `{}`: {error}", source.name));
        if let Some(pcap) = &source.pcap {
            let mut reader = CaptureReader::open(&pcap.file).map_err(wrong)?;
            reader.only_ports(&pcap.ports);
            reader.check_sums(pcap.check_sums());
            let reader = Reader::Capture(Box::new(reader));
            return Ok(FileSource { reader, pace: Pace::new(speed(pcap.speed)) });
        }
        let Some(raw) = &source.raw else {
            return Err(Failure::input(format_args!("source `{}` has no link.", source.name)));
        };
        let reader = RawReader::open(&raw.file, raw.framing()).map_err(wrong)?;
        let reader = Reader::Raw(Box::new(reader));
        Ok(FileSource { reader, pace: Pace::new(speed(raw.speed)) })
    }
}

fn speed(speed: experiment::Speed) -> Speed {
    match speed {
        experiment::Speed::Rate(rate) => Speed::Rate(rate),
        experiment::Speed::Word(SpeedWord::Full) => Speed::Full,
        experiment::Speed::Word(SpeedWord::Recorded) => Speed::Recorded,
    }
}

impl Reader {
    fn next(&mut self) -> Result<Option<Datagram<'_>>, CaptureError> {
        match self {
            Reader::Capture(reader) => reader.next(),
            // Such files have no times: a payload arrives when it is read.
            Reader::Raw(reader) => reader
                .next()
                .map(|found| found.map(|datagram| Datagram { time: clock::now(), ..datagram })),
        }
    }
}

/// Reads the file into the ring until its end, or until the run is over.
pub fn push_into(
    source: FileSource,
    ring: &mut Producer,
    stop: &Stop,
    live: &Live,
    name: &str,
    end: &mut InputEnd,
) {
    let FileSource { mut reader, mut pace } = source;
    loop {
        match reader.next() {
            Ok(Some(datagram)) => {
                if !wait_until_due(&mut pace, datagram.time, stop) || !push(ring, &datagram, stop) {
                    break;
                }
                end.counters.datagrams += 1;
                end.counters.bytes += datagram.bytes.len() as u64;
            }
            Ok(None) => break,
            Err(error) => {
                live.fault(format_args!("source `{name}`: {error}"));
                break;
            }
        }
    }
    if let Reader::Raw(reader) = &reader {
        end.counters.frames_unusable = u64::from(reader.cut().is_some());
        live.note(reader.cut());
    }
    if let Reader::Capture(reader) = &reader {
        live.note(reader.cut());
        end.counters.other_traffic = reader.counters().other_traffic();
        end.counters.frames_unusable = reader.counters().unusable();
        let rows = reader.counters().rows().map(|(row, value)| (row.name.into(), value.into()));
        end.capture = Some(serde_json::Value::Object(rows.collect()));
    }
}

/// Waits for a datagram's time; `false` when the run is over first.
fn wait_until_due(pace: &mut Pace, time: Moment, stop: &Stop) -> bool {
    loop {
        if stop.is_over() {
            return false;
        }
        match pace.due(time, clock::monotonic()) {
            None | Some(Span::ZERO) => return true,
            Some(wait) => std::thread::sleep(SLEEP_MAX.min(Duration::from_nanos(wait.as_ns()))),
        }
    }
}
