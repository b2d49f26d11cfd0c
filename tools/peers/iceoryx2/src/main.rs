//! iceoryx2 between two processes: `peer-iceoryx2 trip|rate BYTES COUNT` prints half a round trip
//! (p50, ns) or messages per second; `fluxline bench` pins it and, by `taskset`, its other half.
//! Each side copies from a buffer of its own into the loaned sample; nobody reads what comes.

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

type Service = ipc::Service;
type Ends = (Publisher<Service, [u8], ()>, Subscriber<Service, [u8], ()>);

fn main() -> Result<(), Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["other", task, group, bytes, count] => other(task, group, bytes.parse()?, count.parse()?),
        [task, bytes, count, core] => {
            let value = here(task, bytes, count, core)?;
            println!("{value}");
            Ok(())
        }
        _ => Err("write: peer-iceoryx2 trip|rate BYTES COUNT CORE-OF-THE-OTHER".into()),
    }
}

fn here(task: &str, bytes: &str, count: &str, core: &str) -> Result<f64, Box<dyn Error>> {
    let group = format!("fluxline-peer-{}", std::process::id());
    let mut other = Command::new("taskset")
        .args(["-c", core])
        .arg(std::env::current_exe()?)
        .args(["other", task, &group, bytes, count])
        .stdout(Stdio::null())
        .spawn()?;
    let (bytes, count) = (bytes.parse()?, count.parse()?);
    let node = NodeBuilder::new().create::<Service>()?;
    let (to, from) = ends(&node, &format!("{group}-there"), &format!("{group}-back"), bytes)?;
    receive(&from)?; // it is there
    let data = vec![1; bytes];
    let value = if task == "trip" {
        let mut trips = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let began = Instant::now();
            send(&to, &data)?;
            receive(&from)?;
            trips.push(began.elapsed().as_nanos() as u64);
        }
        trips.sort_unstable();
        trips[trips.len() / 2] as f64 / 2.0
    } else {
        let began = Instant::now();
        for _ in 0..count {
            send(&to, &data)?;
        }
        receive(&from)?;
        count as f64 / began.elapsed().as_secs_f64()
    };
    other.wait()?;
    Ok(value)
}

fn other(task: &str, group: &str, bytes: usize, count: u64) -> Result<(), Box<dyn Error>> {
    let node = NodeBuilder::new().create::<Service>()?;
    let (to, from) = ends(&node, &format!("{group}-back"), &format!("{group}-there"), bytes)?;
    let data = vec![1; bytes];
    send(&to, &data)?;
    for _ in 0..count {
        receive(&from)?;
        if task == "trip" {
            send(&to, &data)?;
        }
    }
    if task != "trip" {
        send(&to, &data)?;
    }
    // Its samples stay until they are taken.
    std::thread::sleep(std::time::Duration::from_millis(100));
    Ok(())
}

/// Both ends of one process, when the other's are there.
fn ends(node: &Node<Service>, to: &str, from: &str, bytes: usize) -> Result<Ends, Box<dyn Error>> {
    let open = |name: &str| -> Result<_, Box<dyn Error>> {
        Ok(node
            .service_builder(&name.try_into()?)
            .publish_subscribe::<[u8]>()
            .max_publishers(1)
            .max_subscribers(1)
            .subscriber_max_buffer_size(64)
            .subscriber_max_borrowed_samples(2)
            .history_size(0)
            .enable_safe_overflow(false)
            .open_or_create()?)
    };
    let (to, from) = (open(to)?, open(from)?);
    let subscriber = from.subscriber_builder().create()?;
    let publisher = to
        .publisher_builder()
        .initial_max_slice_len(bytes)
        .max_loaned_samples(2)
        .unable_to_deliver_strategy(UnableToDeliverStrategy::DiscardSample)
        .create()?;
    while to.dynamic_config().number_of_subscribers() == 0 {
        std::thread::yield_now();
    }
    Ok((publisher, subscriber))
}

/// Tries until it is delivered: its own way to block sleeps for long.
fn send(to: &Publisher<Service, [u8], ()>, data: &[u8]) -> Result<(), Box<dyn Error>> {
    while to.loan_slice_uninit(data.len())?.write_from_slice(data).send()? == 0 {
        std::hint::spin_loop();
    }
    Ok(())
}

fn receive(from: &Subscriber<Service, [u8], ()>) -> Result<(), Box<dyn Error>> {
    while from.receive()?.is_none() {
        std::hint::spin_loop();
    }
    Ok(())
}
