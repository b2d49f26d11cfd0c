//! Encodes the groups of an export on several threads, and writes them in order.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, mpsc};

use fluxline_export::{EncodedGroup, Group};
use fluxline_export::{ExportError, ExportJob, ExportReport};

use crate::progress;

/// A group that a thread encoded, with its number in the order of reading.
struct Answer {
    number: u64,
    encoded: Result<EncodedGroup, ExportError>,
}

/// A group to encode, with its number in the order of reading.
struct Question {
    number: u64,
    group: Group,
}

/// Runs an export to its end. The files do not depend on the number of threads.
pub fn run(mut job: ExportJob, threads: usize, json: bool) -> Result<ExportReport, ExportError> {
    let bar = progress::bytes(job.run_bytes(), json);
    let encoder = job.encoder();
    let (ask, questions) = mpsc::channel::<Question>();
    let (answer, answers) = mpsc::channel::<Answer>();
    let questions = Mutex::new(questions);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (encoder, questions, answer) = (&encoder, &questions, answer.clone());
            scope.spawn(move || {
                loop {
                    let next = questions.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    // No more questions: the export has ended, or failed.
                    let Ok(Question { number, group }) = next else { return };
                    let encoded = encoder.encode(group);
                    if answer.send(Answer { number, encoded }).is_err() {
                        return;
                    }
                }
            });
        }
        drop(answer);
        let asker = ask;
        let (mut asked, mut written, mut at_end) = (0, 0, false);
        let mut waiting = BTreeMap::new();
        loop {
            while !at_end && asked - written <= threads as u64 {
                match job.next_group()? {
                    Some(group) => {
                        // The threads live as long as the sender.
                        let _ = asker.send(Question { number: asked, group });
                        asked += 1;
                    }
                    None => at_end = true,
                }
            }
            if written == asked {
                return Ok(());
            }
            let Ok(Answer { number, encoded }) = answers.recv() else { return Ok(()) };
            waiting.insert(number, encoded?);
            while let Some(encoded) = waiting.remove(&written) {
                job.write(encoded)?;
                written += 1;
                bar.set_position(job.read_bytes());
            }
        }
    })
    .inspect_err(|_: &ExportError| bar.finish_and_clear())?;
    bar.finish_and_clear();
    job.finish()
}
