//! demonstrates: the speed of the log on Kafka alone: records of a readout node to a builder
//!
//! run: tools/kafka/speed.py, which measures Kafka's own tools beside it

mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{Log, LogError};
use fluxline_kafka::settings::Settings;
use support::process_cpu;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, brokers, name, megabytes, record_bytes, options @ ..] = arguments.as_slice() else {
        return Err("usage: log_speed write|read BROKERS NAME MEGABYTES RECORD-BYTES \
            [OPTION=VALUE...]"
            .into());
    };
    let options = options.iter().filter_map(|text| text.split_once('='));
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let settings = Settings { brokers: brokers.clone(), options };
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut log = KafkaLog::open(&settings, name, run)?;
    let record_bytes: usize = record_bytes.parse()?;
    let records = megabytes.parse::<u64>()? * 1_000_000 / record_bytes as u64;
    let (began, cpu_before) = (Instant::now(), process_cpu());
    match verb.as_str() {
        "write" => write(&mut log, records, record_bytes)?,
        "read" => read(&mut log, records)?,
        _ => return Err("the first argument is `write` or `read`".into()),
    }
    let seconds = began.elapsed().as_secs_f64();
    let sent = records as f64 * record_bytes as f64;
    println!(
        "{:.1} MB/s, {:.2} CPU-s/GB",
        sent / seconds / 1e6,
        (process_cpu() - cpu_before) / sent * 1e9
    );
    Ok(())
}

fn write(log: &mut KafkaLog, records: u64, record_bytes: usize) -> Result<(), Failure> {
    let record: Vec<u8> = (0..record_bytes).map(|at| at as u8).collect();
    for _ in 0..records {
        // The client's memory is full: as a readout node, hand over again later.
        while let Err(LogError::Away(_)) = log.append(0, &record) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(log.flush(Duration::from_secs(60))?)
}

fn read(log: &mut KafkaLog, records: u64) -> Result<(), Failure> {
    let (mut offset, mut quiet) = (0, Instant::now());
    while offset < records {
        if let Some(record) = log.read(0, offset)? {
            std::hint::black_box(&record.bytes);
            offset = record.offset + 1;
            quiet = Instant::now();
        } else if quiet.elapsed() > Duration::from_secs(10) {
            return Err(format!("the log has {offset} records, not {records}").into());
        }
    }
    Ok(())
}
