//! A sender as a process of its own: `fluxline bench` started once more.

use std::io::{BufRead, Read, Write};
use std::time::Duration;

use fluxline::clock;
use fluxline_core::Moment;

use super::process::{Begin, Order, Word};
use super::transmit::Sender;

/// The longest order \[byte\]. (assumed: a plan of a thousand cores is 6 KiB)
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The longest wait for the beginning: longer ones mean that the clock was set back.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// The time before the beginning at which it stops sleeping and polls the clock: longer than a
/// wake-up takes. (assumed)
const WAKE_BEFORE: Duration = Duration::from_micros(300);

/// Runs a sender: reads an order and the moment to begin, sends, and reports its counts.
///
/// The process that started it holds the other end of `input`. When that closes early, this process
/// ends at once with status 1: a sender never outlives its benchmark. To be called by a program
/// that does nothing else.
///
/// Errors: a sentence; the orders are garbled, or end too early. A failure to send is an answer,
/// not an error.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    output: &mut impl Write,
) -> Result<(), String> {
    let order: Order = read(&mut input)?;
    let mut sender = match Sender::open(&order.plan, order.index) {
        Ok(sender) => sender,
        Err(why) => return say(output, &Word::Failed(why)),
    };
    say(output, &Word::Ready)?;
    let begin: Begin = read(&mut input)?;
    std::thread::spawn(move || {
        // Further input is ignored.
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        std::process::exit(1);
    });
    wait_until(Moment::from_ns(begin.at_ns));
    let word = match sender.send() {
        Ok(sent) => Word::Done(Box::new(sent)),
        Err(why) => Word::Failed(why),
    };
    say(output, &word)
}

fn read<T: serde::de::DeserializeOwned>(input: &mut impl BufRead) -> Result<T, String> {
    let mut line = String::new();
    let read = input.take(LINE_BYTES_MAX).read_line(&mut line);
    match read {
        Ok(0) => Err("the benchmark ended before it said what to send".to_owned()),
        Ok(_) => serde_json::from_str(&line)
            .map_err(|error| format!("no order to a sender ({error}); `fluxline bench` starts it")),
        Err(error) => Err(format!("no order can be read: {error}")),
    }
}

fn say(output: &mut impl Write, word: &Word) -> Result<(), String> {
    let text = serde_json::to_string(word).map_err(|error| error.to_string())?;
    let said = writeln!(output, "{text}").and_then(|()| output.flush());
    said.map_err(|error| format!("the result could not be reported: {error}"))
}

/// Sleeps, then polls the clock, until the moment has come.
fn wait_until(moment: Moment) {
    let left = || {
        let now = clock::now();
        if moment <= now { Duration::ZERO } else { Duration::from_nanos(moment.since(now).as_ns()) }
    };
    if left() > WAIT_MAX {
        return;
    }
    std::thread::sleep(left().saturating_sub(WAKE_BEFORE));
    while !left().is_zero() {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn served(text: &str) -> (Result<(), String>, String) {
        let mut said = Vec::new();
        let ended = serve(Cursor::new(text.as_bytes().to_vec()), &mut said);
        (ended, String::from_utf8(said).unwrap())
    }

    #[test]
    fn no_orders_wrong_ones_and_half_ones_are_a_sentence() {
        for (text, says) in [
            ("", "ended before it said what to send"),
            ("\n", "no order to a sender"),
            ("{}", "no order to a sender"),
            ("{\"plan\":7,\"index\":0}\n", "no order to a sender"),
            ("[[[[[[[[", "no order to a sender"),
        ] {
            let (ended, said) = served(text);
            assert!(ended.as_ref().is_err_and(|why| why.contains(says)), "{text:?}: {ended:?}");
            assert_eq!(said, "");
        }
        let endless = "x".repeat(3 << 20);
        assert!(served(&endless).0.is_err());
        let bytes: Vec<u8> = vec![0xFF, 0xFE, b'\n'];
        assert!(serve(Cursor::new(bytes), &mut Vec::new()).is_err());
    }

    #[test]
    fn a_sender_that_is_not_among_those_of_the_plan_is_answered_and_no_panic() {
        let plan = crate::datagrams::transmit::SendPlan {
            destination: ([127, 0, 0, 1], 9).into(),
            trial: 1,
            path: crate::datagrams::setting::SINGLE,
            datagram_bytes: 64,
            cores: vec![None],
            rate: None,
            duration: Duration::from_millis(1),
        };
        let order = serde_json::to_string(&Order { plan, index: 1 }).unwrap();
        let (ended, said) = served(&format!("{order}\n"));
        assert_eq!((ended, said.as_str()), (Ok(()), "{\"failed\":\"unknown sender 1\"}\n"));
    }

    #[test]
    fn a_moment_that_is_past_or_far_ahead_is_not_waited_for() {
        wait_until(Moment::from_ns(0));
        wait_until(Moment::from_ns(u64::MAX));
    }
}
