//! `fluxline ship`: sends the events of a run that its topic lacks.

use crate::failure::{Ending, Failure};
use crate::run_arguments::ShipArguments;

/// Ships a run, and prints what was sent and what was there before.
#[cfg(feature = "kafka")]
pub fn ship(arguments: &ShipArguments, json: bool) -> Result<Ending, Failure> {
    use fluxline_kafka::ship::{ShipConfig, ship};

    let report = ship(&ShipConfig {
        run: arguments.run.clone(),
        brokers: arguments.brokers.clone(),
        topic: arguments.topic.clone(),
        settings_file: arguments.settings_file.clone(),
        schema: arguments.schema.map(Into::into),
    })
    .map_err(failure)?;
    let failure = lacking(arguments, &report);
    let status = crate::failure::status_of(failure.as_ref());
    let sentence = failure.as_ref().map(|failure| failure.message.clone());
    Ok(crate::failure::report(failure.as_ref(), json, || match json {
        true => super::print_json(&serde_json::json!({
            "status": status, "sentence": sentence,
            "run": report.run, "topic": report.topic, "present": report.present,
            "sent": report.sent, "sent_bytes": report.sent_bytes, "events": report.events,
            "too_large": report.too_large, "unmapped": report.unmapped,
            "misfits": report.misfits, "foreign": report.foreign, "notes": report.notes,
            "integrity": super::integrity::document(&report.integrity),
        })),
        false => print(arguments, &report),
    }))
}

/// Returns the reason why the topic lacks data of the run.
#[cfg(feature = "kafka")]
fn lacking(
    arguments: &ShipArguments,
    report: &fluxline_kafka::ship::ShipReport,
) -> Option<Failure> {
    let (topic, run) = (&report.topic, arguments.run.display());
    if let Some(sentence) = report.integrity.sentence() {
        return Some(Failure::files(format_args!(
            "topic `{topic}` has only the readable part of {run}: {sentence}"
        )));
    }
    let mut reasons = Vec::new();
    if report.too_large > 0 {
        reasons.push(format!(
            "{} events that are larger than a record may be (raise record-bytes under \
             [sink.kafka] for the next run)",
            report.too_large
        ));
    }
    if report.misfits > 0 {
        reasons.push(format!(
            "{} values that do not fit into its schema (correct the mapping under [packet.ess])",
            report.misfits
        ));
    }
    (!reasons.is_empty()).then(|| {
        let reasons = reasons.join(" and ");
        Failure::look(format_args!("{run} is sent, and topic `{topic}` lacks {reasons}."))
    })
}

#[cfg(feature = "kafka")]
fn print(arguments: &ShipArguments, report: &fluxline_kafka::ship::ShipReport) {
    crate::say!(
        "{} as {} in topic {}: {} records sent with {} events, {} were there before.",
        arguments.run.display(),
        report.run,
        report.topic,
        report.sent,
        report.events,
        report.present
    );
    super::integrity::print_faults(&report.integrity);
    if report.unmapped > 0 {
        crate::say!(
            "{} events have no value that the schema takes and stay in the files only.",
            report.unmapped
        );
    }
    report.notes.iter().for_each(|note| crate::say!("{note}."));
}

#[cfg(feature = "kafka")]
fn failure(error: fluxline_kafka::ship::ShipError) -> Failure {
    use fluxline_kafka::ship::ShipError;

    match error {
        ShipError::Run(sentence) => Failure::input(sentence),
        ShipError::Files(sentence) => Failure::files(sentence),
        error @ (ShipError::Topic(_) | ShipError::Unread { .. }) => {
            Failure::link(format_args!("{}.", error.to_string().trim_end_matches('.')))
        }
        error @ (ShipError::Unsent { .. } | ShipError::Fenced { .. }) => {
            Failure::failed(format_args!("{error}."))
        }
    }
}

/// Refuses: this program was built without Kafka.
#[cfg(not(feature = "kafka"))]
pub fn ship(arguments: &ShipArguments, _json: bool) -> Result<Ending, Failure> {
    let ShipArguments { run, brokers, topic, settings_file, schema } = arguments;
    let _ = (brokers, topic, settings_file, schema);
    Err(Failure::failed(format_args!(
        "{} was not shipped: this program was built without Kafka; build it with `cargo build \
         --release --features kafka`.",
        run.display()
    )))
}
