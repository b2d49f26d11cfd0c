//! The setting of a measurement: addresses, cores, the longest datagram; and its extent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fluxline::udp::{SenderConfig, UdpPort, UdpPortConfig, UdpSender};
use fluxline_core::port::Port;

use super::arrivals::STAMP_BYTES;
use super::ends::Ends;
use super::message::{Host, Path, Receiving, Sending};
use super::trial::TrialPlan;
use crate::Error;
use crate::environment::Plan;

/// Any port: connecting a UDP socket sends nothing, so nobody needs to listen.
const ANY_PORT: u16 = 9;
/// The requested receive buffer \[byte\]: 64 MiB, as for the peers and by default.
const BUFFER_BYTES: u32 = 64 << 20;

/// Payloads of interest \[byte\]: the least of Ethernet's, and the longest of MTU 1500 and 9000.
pub const NAMED_SIZES: [usize; 3] = [64, 1_472, 8_972];

/// Single datagrams to a napping receiver: an FPGA's way into a PC.
pub const SINGLE: Path = Path::new(Sending::Single, Receiving::Napping);
/// Trains to GRO: a PC's way into a PC.
pub const TRAINS: Path = Path::new(Sending::Trains, Receiving::Gro);

/// The extent of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// UDP payloads \[byte\]; those too long for the path are left out.
    pub sizes: Vec<usize>,
    /// The sizes of the search for the loss-free rate \[byte\].
    pub search_sizes: Vec<usize>,
    /// The paths.
    pub paths: Vec<Path>,
    /// The time that each trial sends.
    pub trial: Duration,
    /// Repetitions of the sweep, interleaved.
    pub rounds: u32,
    /// The resolution of the loss-free rate, as a share of it.
    pub resolution: f64,
    /// Clean trials in a row that make a loss-free rate.
    pub confirmations: u32,
    /// Trials of one search at most.
    pub trials_max: u32,
}

impl Extent {
    /// Two minutes a round and 20 for the search: all paths, ten sizes, trials of 2 s.
    #[must_use]
    pub fn full() -> Extent {
        let blocking = Path::new(Sending::Single, Receiving::Blocking);
        let joined = Path::new(Sending::Single, Receiving::Gro);
        let sizes = vec![64, 128, 256, 512, 1_024, 1_472, 2_048, 4_096, 8_192, 8_972];
        Extent {
            search_sizes: sizes.clone(),
            sizes,
            paths: vec![blocking, SINGLE, joined, TRAINS],
            trial: Duration::from_secs(2),
            rounds: 3,
            resolution: 0.02,
            confirmations: 3,
            trials_max: 40,
        }
    }

    /// Half a minute: the two main paths, three sizes or two, trials of 0.3 s.
    #[must_use]
    pub fn quick() -> Extent {
        Extent {
            sizes: NAMED_SIZES.to_vec(),
            search_sizes: NAMED_SIZES[1..].to_vec(),
            paths: vec![SINGLE, TRAINS],
            trial: Duration::from_millis(300),
            rounds: 1,
            resolution: 0.05,
            confirmations: 2,
            trials_max: 12,
        }
    }

    /// Returns the extent of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Extent {
        let mut extent = if plan.quick { Extent::quick() } else { Extent::full() };
        let inside = |size: &usize| (plan.sizes[0]..=plan.sizes[1]).contains(&(*size as u64));
        extent.sizes.retain(inside);
        extent.search_sizes.retain(inside);
        if !plan.quick {
            extent.rounds = plan.rounds;
        }
        if plan.trial_seconds.is_finite() {
            extent.trial = Duration::from_secs_f64(plan.trial_seconds.clamp(0.05, 3_600.0));
        }
        extent
    }

    /// Returns true if two senders are tried on this path.
    #[must_use]
    pub fn has_two_senders(&self, path: Path) -> bool {
        path == SINGLE || path == TRAINS
    }
}

/// The set-up known before the first trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The receiver's address.
    pub address: IpAddr,
    /// Cores of the first and second sender.
    pub sender_cores: [Option<usize>; 2],
    /// The receiver's core.
    pub receiver_core: Option<usize>,
    /// The longest datagram that the path carries whole \[byte\].
    pub datagram_bytes_max: usize,
    /// One sentence: the cores of senders and receiver, and which of them share one.
    pub cores: String,
    /// The requested receive buffer \[byte\].
    pub buffer_bytes: u32,
}

impl Setting {
    /// Asks the other side, chooses cores, and finds the path's MTU.
    ///
    /// Errors: [`Error`]. Cost: one question, some ten system calls.
    pub fn find(ends: &mut dyn Ends) -> Result<Setting, Error> {
        let (address, far) = (ends.address(), ends.far_host()?);
        let chosen = choose(&Host::here(), &far);
        Ok(Setting {
            address,
            sender_cores: chosen.senders,
            receiver_core: chosen.receiver,
            datagram_bytes_max: longest(address).map_err(Error::Input)?,
            cores: chosen.words,
            buffer_bytes: BUFFER_BYTES,
        })
    }

    /// The sizes that the path carries, ascending, each once; those below a stamp are raised.
    #[must_use]
    pub fn sizes(&self, wanted: &[usize]) -> Vec<usize> {
        let mut sizes: Vec<usize> = wanted.iter().map(|&size| size.max(STAMP_BYTES)).collect();
        sizes.retain(|&size| size <= self.datagram_bytes_max);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The same, at least one.
    ///
    /// Errors: [`Error::Input`], if no size fits: the sizes that fit, and those asked for.
    pub fn some_sizes(&self, wanted: &[usize]) -> Result<Vec<usize>, Error> {
        let sizes = self.sizes(wanted);
        if !sizes.is_empty() {
            return Ok(sizes);
        }
        let (address, most) = (self.address, self.datagram_bytes_max);
        Err(Error::Input(match wanted.iter().min() {
            Some(least) => format!(
                "the interface to {address} takes at most {most} byte in a datagram, and the \
                 shortest asked for has {least}; raise its MTU (`ip link set DEVICE mtu 1500`)"
            ),
            None => "none of the sizes that are measured is between those asked for; give wider \
                     --sizes, for example 64..1472"
                .to_owned(),
        }))
    }

    /// Returns the size whose limits are shown in words: the longest with a name, else the longest.
    #[must_use]
    pub fn headline(&self, wanted: &[usize]) -> Option<usize> {
        let sizes = self.sizes(wanted);
        let named = sizes.iter().rev().find(|size| NAMED_SIZES.contains(size));
        named.or(sizes.last()).copied()
    }

    /// A trial on these cores.
    #[must_use]
    pub fn trial(
        &self,
        path: Path,
        bytes: usize,
        rate: Option<f64>,
        length: Duration,
    ) -> TrialPlan {
        TrialPlan {
            path,
            datagram_bytes: bytes,
            rate,
            duration: length,
            sender_cores: vec![self.sender_cores[0]],
            receiver_core: self.receiver_core,
            buffer_bytes: self.buffer_bytes,
        }
    }
}

struct Chosen {
    senders: [Option<usize>; 2],
    receiver: Option<usize>,
    words: String,
}

/// Chooses cores that the user has not chosen: senders from the front, the receiver from the back.
/// Two senders share one core before the receiver shares its own.
fn choose(near: &Host, far: &Host) -> Chosen {
    let shared = !near.boot.is_empty() && near.boot == far.boot;
    let first = near.chosen.or(near.cores.first().copied());
    let receiver = far.chosen.or(far.cores.last().copied());
    let mut others = near
        .cores
        .iter()
        .copied()
        .filter(|&core| Some(core) != first && !(shared && Some(core) == receiver));
    let second = others.next().or(first);
    let name = |core: Option<usize>| {
        core.map_or("no core of its own".to_owned(), |core| format!("core {core}"))
    };
    let hosts = if shared { "one host" } else { "two hosts" };
    let mut words = format!("Sender on {}, receiver on {}, {hosts}", name(first), name(receiver));
    if shared && first == receiver {
        words.push_str(": both share it, and the rates are those of half a core each");
    }
    if second == first {
        words.push_str("; two senders share the sender's core");
    } else {
        words.push_str(&format!("; a second sender on {}", name(second)));
    }
    words.push('.');
    Chosen { senders: [first, second], receiver, words }
}

/// The longest UDP payload that leaves towards `address` unfragmented \[byte\].
fn longest(address: IpAddr) -> Result<usize, String> {
    let probe = UdpSender::open(SenderConfig::new(SocketAddr::new(address, ANY_PORT)));
    let local = probe.map_err(|error| error.to_string())?.local_address().ip();
    let port = UdpPort::bind(UdpPortConfig::new(SocketAddr::new(local, 0)));
    let port = port.map_err(|error| error.to_string())?;
    Ok(port.limits().frame_bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::ends::InProcess;

    fn here() -> Setting {
        Setting::find(&mut InProcess::new([127, 0, 0, 1].into())).unwrap()
    }

    #[test]
    fn loopback_carries_the_longest_datagram_and_both_ends_are_one_host() {
        let setting = here();
        assert!(setting.datagram_bytes_max >= 8_972, "{setting:?}");
        assert!(setting.cores.contains("one host"), "{setting:?}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_left_out_and_none_is_shorter_than_a_stamp() {
        let setting = Setting { datagram_bytes_max: 1_472, ..here() };
        assert_eq!(setting.sizes(&[8_972, 1_472, 1, 64, 64, 3]), [16, 64, 1_472]);
        assert_eq!(setting.headline(&[8_972, 1_472, 64, 1_470]), Some(1_472));
        assert_eq!(setting.headline(&[900, 100]), Some(900));
        assert_eq!(setting.headline(&[9_000]), None);
    }

    #[test]
    fn a_path_that_no_size_fits_is_rejected_with_the_sizes_that_fit() {
        let tiny = Setting { datagram_bytes_max: 40, ..here() };
        let error = tiny.some_sizes(&[64, 1_472]).unwrap_err().to_string();
        assert!(error.contains("at most 40 byte") && error.contains("has 64"), "{error}");
        assert!(error.contains("MTU"), "{error}");
        assert_eq!(tiny.some_sizes(&[8, 64]).unwrap(), [16]);
        let error = tiny.some_sizes(&[]).unwrap_err().to_string();
        assert!(error.contains("--sizes"), "{error}");
    }

    #[test]
    fn a_plan_chooses_sizes_rounds_and_the_length_of_trials() {
        let plan = Plan { sizes: [100, 2_000], trial_seconds: 60.0, ..Plan::new(false) };
        let extent = Extent::of(&plan);
        assert_eq!(extent.sizes, [128, 256, 512, 1_024, 1_472]);
        assert_eq!((extent.rounds, extent.trial), (plan.rounds, Duration::from_secs(60)));
        let senseless = Plan { trial_seconds: f64::NAN, ..Plan::quick() };
        assert_eq!(Extent::of(&senseless), Extent::quick());
        let hasty = Plan { trial_seconds: -1.0, ..Plan::quick() };
        assert_eq!(Extent::of(&hasty).trial, Duration::from_millis(50));
    }

    #[test]
    fn cores_are_shared_only_where_there_are_too_few_and_it_is_said() {
        let host = |boot: &str, cores: &[usize], chosen| Host {
            boot: boot.to_owned(),
            cores: cores.to_vec(),
            chosen,
        };
        let of = |near: &Host, far: &Host| {
            let chosen = choose(near, far);
            (chosen.senders, chosen.receiver, chosen.words)
        };
        let two = host("a", &[0, 1], None);
        let (senders, receiver, words) = of(&two, &two);
        assert_eq!((senders, receiver), ([Some(0), Some(0)], Some(1)));
        assert!(words.contains("two senders share the sender's core"), "{words}");
        let four = host("a", &[0, 1, 2, 3], None);
        let (senders, receiver, words) = of(&four, &four);
        assert_eq!((senders, receiver), ([Some(0), Some(1)], Some(3)));
        assert!(words.contains("a second sender on core 1"), "{words}");
        let pinned = [host("a", &[0, 1, 2, 3], Some(2)), host("a", &[0, 1, 2, 3], Some(0))];
        assert_eq!(of(&pinned[0], &pinned[1]).0, [Some(2), Some(1)]);
        assert_eq!(of(&pinned[0], &pinned[1]).1, Some(0));
        let (senders, receiver, words) = of(&two, &host("b", &[0, 1], None));
        assert_eq!((senders, receiver), ([Some(0), Some(1)], Some(1)));
        assert!(words.contains("two hosts"), "{words}");
        let one = host("a", &[5], None);
        let (senders, receiver, words) = of(&one, &one);
        assert_eq!((senders, receiver), ([Some(5), Some(5)], Some(5)));
        assert!(words.contains("half a core each"), "{words}");
        let hidden = host("", &[], None);
        assert_eq!(of(&hidden, &hidden).0, [None, None]);
    }
}
