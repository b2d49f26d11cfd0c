//! Sends UDP at a given rate, in batches, and counts exactly the datagrams that the kernel took.
//!
//! A system call per datagram limits a sender to about 0.5 M/s. So datagrams are sent in batches
//! (sendmmsg), and equal ones as trains that the kernel or the card cuts (UDP_SEGMENT). Datagrams
//! that were not sent are reported to the caller, never lost silently.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline_core::{Moment, Span};

use super::bind::{self, BindError, interface_index, refused};
use crate::clock;
use crate::sys::socket::{self, BATCH_MESSAGES, Flag, SEGMENTS_MAX, Socket, Until};

/// Largest UDP payload of one datagram or train \[byte\]: 65535 (RFC 791) − 20 − 8.
const PAYLOAD_BYTES_MAX: usize = 65_507;
const _: () = assert!(PAYLOAD_BYTES_MAX == 65_535 - 20 - 8);
/// The pause after a device queue was full; at 1 Gb/s the queue drains faster.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(50);

/// The configuration of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// The destination.
    pub destination: SocketAddr,
    /// Address and port to send from; `None`: the kernel chooses.
    pub local: Option<SocketAddr>,
    /// Connect the socket: cheaper per datagram, and refusals by the receiver are noticed.
    pub connect: bool,
    /// Send equal datagrams as trains (UDP_SEGMENT). An FPGA does not send trains, so measure both.
    pub segmentation: bool,
    /// Send buffer to ask for \[byte\].
    pub buffer_bytes: u32,
    /// Interface for multicast, by name or address; `None`: by the kernel's routes.
    pub multicast_interface: Option<String>,
    /// The number of routers that multicast may pass, plus one.
    pub multicast_hops: u8,
    /// Time for which `send` waits for a full buffer before it returns.
    pub patience: Duration,
}

impl SenderConfig {
    /// The defaults: connected, trains, 4 MiB of buffer, 1 s of patience.
    #[must_use]
    pub fn new(destination: SocketAddr) -> SenderConfig {
        SenderConfig {
            destination,
            local: None,
            connect: true,
            segmentation: true,
            buffer_bytes: 4 << 20,
            multicast_interface: None,
            multicast_hops: 1,
            patience: Duration::from_secs(1),
        }
    }
}

/// The result of [`UdpSender::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOutcome {
    /// Number of the given datagrams that the kernel took, from the first on.
    pub accepted: usize,
}

/// The reason why sending stopped.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The datagram is too long for any network.
    #[error(
        "a datagram of {bytes} bytes is too long for {destination}: at most 65507 bytes, and the \
         MTU less 28 where fragmentation is off"
    )]
    TooLong {
        /// Its length \[byte\].
        bytes: usize,
        /// The destination.
        destination: SocketAddr,
        /// The datagrams before it that the kernel took.
        accepted: usize,
    },
    /// Any error of the host.
    #[error("sending to {destination} failed: {source}")]
    System {
        /// The destination.
        destination: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
        /// The datagrams that the kernel took before.
        accepted: usize,
    },
}

impl SendError {
    /// Returns the number of the given datagrams that the kernel took, from the first on.
    #[must_use]
    pub fn accepted(&self) -> usize {
        match self {
            SendError::TooLong { accepted, .. } | SendError::System { accepted, .. } => *accepted,
        }
    }
}

fluxline_core::counters! {
    /// Counters of a UDP sender.
    pub struct SenderCounters {
        datagrams [Sum "datagram"] "Datagrams that the kernel took" => "";
        bytes [Sum "byte"] "UDP payload that the kernel took" => "";
        trains [Sum "train"] "Messages of several datagrams (UDP_SEGMENT)" => "";
        calls [Sum "call"] "System calls that sent something" => "";
        buffer_full [Sum "wait"] "Waits for room in the send buffer" => "";
        queue_full [Sum "wait"] "Waits because the device's queue was full (ENOBUFS)"
            => "Lower the rate or raise the interface's txqueuelen.";
        refused [Sum "error"] "Times that the receiver's host reported a closed port"
            => "Start the receiver first; these datagrams were sent and lost there.";
        segmentation_refused [Sum "error"] "Times that the device refused trains"
            => "Datagrams larger than the MTU cannot be sent as trains.";
        gave_up [Sum "datagram"] "Datagrams handed back after the patience had run out"
            => "The device does not drain: see `ip -s link`.";
    }
}

/// A socket that sends to one destination.
pub struct UdpSender {
    socket: Socket,
    config: SenderConfig,
    local: SocketAddr,
    segmentation: bool,
    counters: SenderCounters,
}

impl UdpSender {
    /// Opens, sets up, binds and connects the socket.
    ///
    /// Errors: [`BindError`], a sentence each. Cost: some six system calls.
    pub fn open(config: SenderConfig) -> Result<UdpSender, BindError> {
        let destination = config.destination;
        let socket =
            Socket::new(destination.ip()).map_err(refused("open a socket", destination))?;
        let buffer = i32::try_from(config.buffer_bytes).unwrap_or(i32::MAX);
        if socket.set(Flag::SendBufferForce, buffer).is_err() {
            socket
                .set(Flag::SendBuffer, buffer)
                .map_err(refused("size the send buffer", destination))?;
        }
        if destination.ip().is_multicast() {
            aim_multicast(&socket, &config)?;
        }
        match config.local {
            Some(local) => bind::bind(&socket, local)?,
            // Binds now, not at the first datagram, so that the port is known.
            None if !config.connect => bind::bind(&socket, any_port(destination))?,
            None => {}
        }
        if config.connect {
            socket.connect(destination).map_err(refused("find a route", destination))?;
        }
        let local =
            socket.local_address().map_err(refused("report the local address", destination))?;
        let segmentation = config.segmentation;
        Ok(UdpSender { socket, config, local, segmentation, counters: SenderCounters::default() })
    }

    /// Sends the datagrams in order.
    ///
    /// On return, the kernel has them; their arrival is not guaranteed. Returns a smaller number
    /// only if the buffer stayed full for the whole `patience`. Errors: [`SendError`], with the
    /// number taken before. Cost: one system call per 64 datagrams or trains of up to 64.
    pub fn send(&mut self, datagrams: &[&[u8]]) -> Result<SendOutcome, SendError> {
        let mut accepted = 0;
        let mut progress = Instant::now();
        while accepted < datagrams.len() {
            let rest = &datagrams[accepted..];
            let mut messages: [&[&[u8]]; BATCH_MESSAGES] = [&[]; BATCH_MESSAGES];
            let count = plan(rest, self.segmentation, &mut messages);
            let destination = (!self.config.connect).then_some(self.config.destination);
            match self.socket.send(&messages[..count], destination) {
                Ok(sent) => {
                    accepted += self.took(&messages[..sent]);
                    progress = Instant::now();
                }
                Err(error) if progress.elapsed() >= self.config.patience => {
                    if !passes(&error) {
                        return Err(self.stopped(error, rest, accepted));
                    }
                    self.counters.gave_up += rest.len() as u64;
                    break;
                }
                Err(error) => self.recover(error, &messages[..count], accepted)?,
            }
        }
        Ok(SendOutcome { accepted })
    }

    /// Sends the datagrams in order at the pacer's rate, in bursts of its size.
    ///
    /// Works as [`UdpSender::send`]; sleeps while the next burst is far away, and spins when it is
    /// near.
    pub fn send_paced(
        &mut self,
        datagrams: &[&[u8]],
        pacer: &mut Pacer,
    ) -> Result<SendOutcome, SendError> {
        let mut accepted = 0;
        for burst in datagrams.chunks(pacer.burst()) {
            pacer.wait(burst.len());
            match self.send(burst) {
                Ok(outcome) => {
                    accepted += outcome.accepted;
                    if outcome.accepted < burst.len() {
                        break;
                    }
                }
                Err(error) => return Err(error.after(accepted)),
            }
        }
        Ok(SendOutcome { accepted })
    }

    /// Counts the messages that the kernel took; returns the datagrams.
    fn took(&mut self, messages: &[&[&[u8]]]) -> usize {
        self.counters.calls += 1;
        let mut datagrams = 0;
        for message in messages {
            datagrams += message.len();
            self.counters.trains += u64::from(message.len() > 1);
            let bytes: usize = message.iter().map(|datagram| datagram.len()).sum();
            self.counters.bytes += bytes as u64;
        }
        self.counters.datagrams += datagrams as u64;
        datagrams
    }

    /// Waits after passing errors, stops making trains if they are refused; other errors end the
    /// call.
    fn recover(
        &mut self,
        error: io::Error,
        messages: &[&[&[u8]]],
        accepted: usize,
    ) -> Result<(), SendError> {
        let first = messages.first().copied().unwrap_or_default();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN) => {
                self.counters.buffer_full += 1;
                match socket::wait(&[&self.socket], Until::Writable, self.config.patience) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(self.stopped(error, first, accepted)),
                }
            }
            Some(libc::ENOBUFS) => {
                self.counters.queue_full += 1;
                std::thread::sleep(QUEUE_FULL_PAUSE);
                Ok(())
            }
            Some(libc::ECONNREFUSED) => {
                // The error refers to an earlier datagram; this call sent nothing, the next one
                // will.
                self.counters.refused += 1;
                Ok(())
            }
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) if first.len() > 1 => {
                self.counters.segmentation_refused += 1;
                self.segmentation = false;
                Ok(())
            }
            _ => Err(self.stopped(error, first, accepted)),
        }
    }

    fn stopped(&self, source: io::Error, rest: &[&[u8]], accepted: usize) -> SendError {
        let destination = self.config.destination;
        match (source.raw_os_error(), rest.first()) {
            (Some(libc::EMSGSIZE), Some(first)) => {
                SendError::TooLong { bytes: first.len(), destination, accepted }
            }
            _ => SendError::System { destination, source, accepted },
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &SenderCounters {
        &self.counters
    }

    /// Returns the address of the sender, with the actual port.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }
}

impl SendError {
    /// Returns the same error with `more` datagrams accepted before it.
    fn after(mut self, more: usize) -> SendError {
        match &mut self {
            SendError::TooLong { accepted, .. } | SendError::System { accepted, .. } => {
                *accepted += more;
            }
        }
        self
    }
}

fn passes(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::ENOBUFS, libc::ECONNREFUSED];
    error.raw_os_error().is_some_and(|number| passing.contains(&number))
}

fn any_port(destination: SocketAddr) -> SocketAddr {
    match destination.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn aim_multicast(socket: &Socket, config: &SenderConfig) -> Result<(), BindError> {
    let destination = config.destination;
    let index = interface_index(config.multicast_interface.as_deref())?;
    let hops = i32::from(config.multicast_hops);
    let aim = || match destination.ip() {
        IpAddr::V4(_) => {
            if index != 0 {
                socket.multicast_interface_v4(index)?;
            }
            socket.set(Flag::MulticastHopsV4, hops)
        }
        IpAddr::V6(_) => {
            if index != 0 {
                let index = i32::try_from(index).unwrap_or(i32::MAX);
                socket.set(Flag::MulticastInterfaceV6, index)?;
            }
            socket.set(Flag::MulticastHopsV6, hops)
        }
    };
    aim().map_err(refused("send multicast", destination))
}

/// Cuts datagrams into messages: trains of equal ones, of which the last may be shorter.
/// Returns the messages.
fn plan<'a, 'b>(
    mut datagrams: &'a [&'b [u8]],
    segmentation: bool,
    messages: &mut [&'a [&'b [u8]]; BATCH_MESSAGES],
) -> usize {
    let mut count = 0;
    while count < BATCH_MESSAGES && !datagrams.is_empty() {
        let len = if segmentation { train_len(datagrams) } else { 1 };
        let (message, rest) = datagrams.split_at(len);
        messages[count] = message;
        datagrams = rest;
        count += 1;
    }
    count
}

/// Returns the length of the train that begins with the first datagram.
fn train_len(datagrams: &[&[u8]]) -> usize {
    let Some(size) = datagrams.first().map(|first| first.len()) else { return 0 };
    if size == 0 {
        return 1;
    }
    let limit = SEGMENTS_MAX.min(PAYLOAD_BYTES_MAX / size).clamp(1, datagrams.len());
    let equal = datagrams[..limit].iter().take_while(|datagram| datagram.len() == size).count();
    let tail = datagrams[..limit].get(equal).is_some_and(|last| (1..size).contains(&last.len()));
    equal + usize::from(tail)
}

/// A token bucket: an average rate exact to the picosecond per datagram, bursts bounded.
///
/// Source: the generic cell rate algorithm, ITU-T I.371, in its virtual-scheduling form.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Time of one datagram \[ps\]; 0: no limit.
    period_ps: u128,
    burst: usize,
    /// The time at which the next datagram is due \[ps\].
    due_ps: u128,
}

/// Wait below which the pacer spins, because a sleep ends about 50 us late.
const SPIN_BELOW: Span = Span::from_ns(150_000);
/// Time by which a sleep ends before the burst is due.
const WAKE_EARLY: Span = Span::from_ns(100_000);

impl Pacer {
    /// Makes a pacer of `datagrams_per_s`, in bursts of at most `burst` datagrams (at least 1).
    ///
    /// A rate that is not a positive number means no limit.
    #[must_use]
    pub fn new(datagrams_per_s: f64, burst: usize) -> Pacer {
        let limited = datagrams_per_s.is_finite() && datagrams_per_s > 0.0;
        let period_ps = if limited { (1e12 / datagrams_per_s).round() as u128 } else { 0 };
        Pacer { period_ps, burst: burst.max(1), due_ps: 0 }
    }

    /// Returns the largest number of datagrams in a burst.
    #[must_use]
    pub fn burst(&self) -> usize {
        self.burst
    }

    /// Takes the time of `count` datagrams (at most a burst) if it is due at `now`, and returns
    /// zero. Otherwise it takes nothing and returns the remaining wait.
    pub fn take(&mut self, now: Moment, count: usize) -> Span {
        let now_ps = u128::from(now.as_ns()) * 1_000;
        let count = count.min(self.burst) as u128;
        let credit = self.period_ps * (self.burst as u128 - 1);
        let base = self.due_ps.max(now_ps.saturating_sub(credit));
        let due = base + self.period_ps * count.saturating_sub(1);
        if due > now_ps {
            let wait_ns = (due - now_ps).div_ceil(1_000);
            return Span::from_ns(u64::try_from(wait_ns).unwrap_or(u64::MAX));
        }
        self.due_ps = base + self.period_ps * count;
        Span::ZERO
    }

    /// Takes the time of `count` datagrams; sleeps and spins until it is due.
    pub fn wait(&mut self, count: usize) {
        loop {
            let left = self.take(clock::monotonic(), count);
            if left == Span::ZERO {
                return;
            }
            if left > SPIN_BELOW {
                let sleep_ns = left.as_ns() - WAKE_EARLY.as_ns();
                std::thread::sleep(Duration::from_nanos(sleep_ns));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_ends_at_a_longer_an_empty_or_after_a_shorter_datagram() {
        let of = |lens: &[usize]| -> usize {
            let bytes = vec![0; 70_000];
            let datagrams: Vec<&[u8]> = lens.iter().map(|&len| &bytes[..len]).collect();
            train_len(&datagrams)
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[0, 0]), 1);
        assert_eq!(of(&[9, 9, 9]), 3);
        assert_eq!(of(&[9, 9, 4, 9]), 3);
        assert_eq!(of(&[9, 10]), 1);
        assert_eq!(of(&[9, 0]), 1);
        assert_eq!(of(&[8_972; 20]), 7);
        assert_eq!(of(&[70_000, 5]), 1);
        assert_eq!(of(&[1; 100]), SEGMENTS_MAX);
    }

    #[test]
    fn a_pacer_never_exceeds_its_rate_by_more_than_a_burst() {
        for (rate, burst) in [(1e6, 64), (3.0, 1), (333_333.3, 7), (1e9, 64)] {
            let mut pacer = Pacer::new(rate, burst);
            let (start, mut now, mut taken) = (1_000_000_000_u64, 1_000_000_000_u64, 0_u64);
            for step in 0..10_000_u64 {
                let count = 1 + (step as usize * 7) % burst;
                let wait = pacer.take(Moment::from_ns(now), count);
                now += wait.as_ns();
                taken += if wait == Span::ZERO { count as u64 } else { 0 };
                let most = (now - start) as f64 * 1e-9 * rate * 1.001 + burst as f64;
                assert!(taken as f64 <= most + 1.0, "{taken} of {most} at {rate}/s");
            }
            let least = (now - start) as f64 * 1e-9 * rate * 0.999 - burst as f64;
            assert!(taken as f64 >= least, "{taken} of {least} at {rate}/s");
        }
    }

    #[test]
    fn no_rate_is_no_limit() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut pacer = Pacer::new(rate, 1);
            assert!((0..100).all(|_| pacer.take(Moment::from_ns(5), 1) == Span::ZERO));
        }
    }
}
