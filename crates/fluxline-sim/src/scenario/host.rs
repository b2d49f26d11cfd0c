//! The hosts of an Ethernet in scenario files and URLs: the UDP stack of each node's PC.

use serde::{Deserialize, Serialize};

use super::url_parts::{Keys, OpenError};
use super::{Kind, Refused, Scenario};
use crate::Duration;
use crate::net::ethernet::framing;
use crate::net::ethernet::host::{Coalescing, Config, Cores, Driver, preset};

/// The most microseconds or nanoseconds of a key. A choice.
const LONGEST: f64 = 1e6;

/// The PC of every node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackName {
    /// Hosts cost no time.
    #[default]
    #[serde(rename = "none")]
    None,
    /// A PC of 2007: PCI Express x8, a 10 Gb/s card.
    #[serde(rename = "pci-e")]
    PciE,
    /// A PC of 2003: PCI-X at 133 MHz, a 10 Gb/s card.
    #[serde(rename = "pci-x")]
    PciX,
    /// A PC of 2003: PCI with 64 bits at 66 MHz, a 1 Gb/s card.
    #[serde(rename = "pci")]
    Pci,
}

/// The kind of interrupt coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescingName {
    /// An interrupt for every frame.
    Off,
    /// An interrupt some time after the first frame.
    Delay,
    /// A minimum gap between interrupts.
    Throttle,
}

/// The hosts of kind `ethernet`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostPart {
    /// The PC of every node.
    pub stack: StackName,
    /// The coalescing of received frames' interrupts.
    pub coalescing: Option<CoalescingName>,
    /// Its delay or gap \[us\].
    pub coalescing_us: Option<f64>,
    /// Cores of a node: 1 for all, or 2, one of them for interrupts.
    pub cores: Option<u32>,
    /// The send buffer of a socket \[byte\].
    pub send_buffer: Option<u64>,
    /// The receive buffer of a socket \[byte\].
    pub receive_buffer: Option<u64>,
    /// Frames that wait for the card's ring.
    pub driver_queue: Option<u32>,
    /// Frames of the card's receive ring.
    pub ring: Option<u32>,
    /// Frames between interrupt and softirq; 0: the driver polls.
    pub backlog: Option<u32>,
    /// A call to send \[ns\].
    pub send_ns: Option<f64>,
    /// The softirq's work for a received frame \[ns\].
    pub receive_ns: Option<f64>,
    /// The copy of a byte in a call \[ns\].
    pub copy_ns: Option<f64>,
}

/// The keys of a URL besides `host`, which is the stack.
pub(super) const URL_KEYS: &str = "host, coalescing, coalescing-us, cores, send-buffer, \
                                   receive-buffer, driver-queue, ring, backlog";

impl HostPart {
    /// Returns the host of every node, or the mistake in one sentence; `None`: no hosts.
    pub(super) fn config(&self, mtu: u32) -> Result<Option<Config>, String> {
        let mut host = match self.stack {
            StackName::None => return Ok(None),
            StackName::PciE => preset::galli(1),
            StackName::PciX => preset::li_ten_gigabit(),
            StackName::Pci => preset::li_syskonnect(),
        };
        host.card.receive = self.coalescing(host.card.receive)?;
        host.cores = match self.cores {
            None | Some(2) => host.cores,
            Some(1) => Cores { interrupts: 0, processes: vec![0] },
            Some(count) => return Err(format!("`host.cores` is {count}; write 1 or 2.")),
        };
        let buffers = &mut host.buffers;
        buffers.send_bytes = self.send_buffer.unwrap_or(buffers.send_bytes);
        buffers.receive_bytes = self.receive_buffer.unwrap_or(buffers.receive_bytes);
        buffers.queue_frames = self.driver_queue.unwrap_or(buffers.queue_frames);
        host.card.receive_slots = self.ring.unwrap_or(host.card.receive_slots);
        host.driver = match self.backlog {
            None => host.driver,
            Some(0) => Driver::Poll,
            Some(frames) => Driver::Backlog { frames },
        };
        self.set_costs(&mut host)?;
        let frame_bytes = framing::frame_bytes(mtu.into());
        host.check(frame_bytes).map_err(|error| format!("`host`: {error}."))?;
        Ok(Some(host))
    }

    fn coalescing(&self, usual: Coalescing) -> Result<Coalescing, String> {
        let time = match (self.coalescing_us, usual) {
            (Some(us), _) => amount("coalescing-us", us)?.times(1000),
            (None, Coalescing::Delay { time, .. } | Coalescing::Throttle { gap: time }) => time,
            (None, Coalescing::Off) => Duration::from_us(25),
        };
        match (self.coalescing, usual) {
            (Some(CoalescingName::Off), _) | (None, Coalescing::Off)
                if self.coalescing_us.is_some() =>
            {
                Err("`host.coalescing-us` has no effect without coalescing; write coalescing = \
                     \"delay\" or \"throttle\", or leave it out."
                    .into())
            }
            (Some(CoalescingName::Off), _) => Ok(Coalescing::Off),
            (Some(CoalescingName::Throttle), _) => Ok(Coalescing::Throttle { gap: time }),
            (Some(CoalescingName::Delay), _) => Ok(Coalescing::Delay { time, events: 0 }),
            (None, Coalescing::Delay { events, .. }) => Ok(Coalescing::Delay { time, events }),
            (None, other) => Ok(other),
        }
    }

    fn set_costs(&self, host: &mut Config) -> Result<(), String> {
        let costs = &mut host.costs;
        if let Some(ns) = self.send_ns {
            costs.send_call = amount("send-ns", ns)?;
        }
        if let Some(ns) = self.receive_ns {
            costs.receive_frame = amount("receive-ns", ns)?;
        }
        if let Some(ns) = self.copy_ns {
            let copy = amount("copy-ns", ns)?;
            (costs.send_byte, costs.receive_byte) = (copy, copy);
        }
        Ok(())
    }

    /// Reads the keys of a URL.
    pub(super) fn of_url(keys: &Keys<'_>) -> Result<HostPart, OpenError> {
        let whole = "a whole number";
        let number = |key| keys.find(key).map(|_| keys.number(key, 0, whole)).transpose();
        let small = |key| -> Result<Option<u32>, OpenError> {
            let wrong = |_| keys.refused(key, whole);
            number(key)?.map(|count| u32::try_from(count).map_err(wrong)).transpose()
        };
        let coalescing_us = keys.find("coalescing-us");
        let us = || keys.amount("coalescing-us", 0.0, "a time in microseconds");
        Ok(HostPart {
            stack: match keys.find("host") {
                None | Some("none") => StackName::None,
                Some("pci-e") => StackName::PciE,
                Some("pci-x") => StackName::PciX,
                Some("pci") => StackName::Pci,
                Some(_) => return Err(keys.refused("host", "none, pci-e, pci-x or pci")),
            },
            coalescing: match keys.find("coalescing") {
                None => None,
                Some("off") => Some(CoalescingName::Off),
                Some("delay") => Some(CoalescingName::Delay),
                Some("throttle") => Some(CoalescingName::Throttle),
                Some(_) => return Err(keys.refused("coalescing", "off, delay or throttle")),
            },
            coalescing_us: coalescing_us.map(|_| us()).transpose()?,
            cores: small("cores")?,
            send_buffer: number("send-buffer")?,
            receive_buffer: number("receive-buffer")?,
            driver_queue: small("driver-queue")?,
            ring: small("ring")?,
            backlog: small("backlog")?,
            ..HostPart::default()
        })
    }

    /// Returns the first key of a URL that needs a stack, if there is one without it.
    pub(super) fn idle_key(&self, keys: &Keys<'_>) -> Option<&'static str> {
        let needs = |key: &&str| *key != "host" && keys.find(key).is_some();
        let first = URL_KEYS.split(", ").find(needs);
        first.filter(|_| self.stack == StackName::None)
    }
}

/// Returns a time of a key in nanoseconds.
fn amount(key: &str, value: f64) -> Result<Duration, String> {
    match (0.0..=LONGEST).contains(&value) {
        true => Ok(Duration::from_ps((value * 1e3) as u64)),
        false => Err(format!("`host.{key}` is {value}; write 0 to {LONGEST}.")),
    }
}

impl Scenario {
    /// Returns the host of every node; `None`: hosts cost no time.
    pub(super) fn host_config(&self) -> Result<Option<Config>, Refused> {
        if self.network.kind != Kind::Ethernet {
            return Ok(None);
        }
        let host = self.host.config(self.ethernet.mtu).map_err(Refused)?;
        let has_bus = self.node.iter().any(|part| part.host.is_some());
        if host.is_some() && has_bus {
            return Err(Refused(
                "`node.host` and `host.stack` both describe the bus of a node; leave one out."
                    .into(),
            ));
        }
        Ok(host)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;
    use crate::world::Cluster;

    const HEAD: &str = "[network]\nkind = \"ethernet\"\nnodes = 2\n";

    fn scenario(host: &str) -> Result<Scenario, String> {
        let text = format!("{HEAD}[traffic]\nbytes = 1000\n[host]\n{host}\n");
        Scenario::parse("x.toml", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn wrong_keys_are_answered_with_what_to_write() {
        for (host, says) in [
            ("stack = \"vax\"", "pci-x\" or \"pci\""),
            ("ring = 8", "has no effect without `host.stack`"),
            ("stack = \"pci\"\ncores = 3", "write 1 or 2"),
            ("stack = \"pci\"\ncoalescing-us = 9.0", "has no effect without coalescing"),
            ("stack = \"pci-e\"\ncoalescing-us = -1.0", "write 0 to"),
            ("stack = \"pci-e\"\nreceive-buffer = 9", "which takes 2304"),
            ("stack = \"pci-e\"\nring = 0", "1 to 1048576 slots"),
            ("stack = \"pci-e\"\nsend-ns = 0.0", "10.000 ns or more"),
            ("stack = \"pci-e\"\n[[node]]\nhost = \"pci-x-133\"", "leave one out"),
        ] {
            let error = scenario(host).expect_err(host);
            assert!(error.contains(says), "{host}: {error}");
        }
        let error = Scenario::parse("x.toml", "[host]\nstack = \"pci\"").expect_err("SCI");
        assert!(error.to_string().contains("`host.stack` has no effect on kind"), "{error}");
    }

    #[test]
    fn a_scenario_with_hosts_has_cores_and_losses_by_place() {
        let measured = |host: &str| {
            let mut scenario = scenario(host).expect("a scenario");
            scenario.run.duration_us = 3_000.0;
            scenario.measure(0.1).expect("it runs")
        };
        let usual = measured("stack = \"pci-e\"");
        let cores = &usual.outcome.cores;
        assert_eq!(cores.len(), 4, "two cores of two nodes");
        assert!(cores.iter().all(|core| core.total() > 0.05 && core.total() < 1.01), "{cores:?}");
        assert_eq!(usual.outcome.lost, 0);
        assert!(usual.outcome.latency_ns.mean > 25_000.0, "the delay of coalescing");
        let throttled = measured("stack = \"pci-e\"\ncoalescing = \"throttle\"");
        assert!(throttled.outcome.latency_ns.mean < usual.outcome.latency_ns.mean);
        let short = measured("stack = \"pci-e\"\nring = 4");
        assert!(
            short.outcome.losses.iter().any(|of| of.place.starts_with("card ring")),
            "{short:?}"
        );
        let lost: u64 = short.outcome.losses.iter().map(|of| of.frames).sum();
        assert_eq!(short.outcome.lost, lost);
        assert!(measured("stack = \"none\"").outcome.cores.is_empty());
    }

    #[test]
    fn a_url_takes_the_same_keys() {
        for (url, says) in [
            ("sim:ethernet?host=vax", "none, pci-e, pci-x or pci"),
            ("sim:ethernet?ring=9", "ring has no effect without host"),
            ("sim:ethernet?host=pci&coalescing=fast", "off, delay or throttle"),
            ("sim:ethernet?host=pci&ring=-1", "a whole number"),
            ("sim:ethernet?host=pci&backlog=99999999999", "a whole number"),
            ("sim:ethernet?host=pci&cores=7", "write 1 or 2"),
            ("sim:ethernet?host=pci&cpu-frame=7", "leave one out"),
        ] {
            let error = Cluster::open(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
        }
        let url = "sim:ethernet?host=pci-e&coalescing=delay&coalescing-us=5&cores=1&ring=64&\
                   send-buffer=100000&receive-buffer=1000000&driver-queue=50&backlog=300";
        assert!(Cluster::open(url).is_ok());
    }
}
