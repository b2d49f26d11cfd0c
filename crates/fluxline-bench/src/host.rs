//! Describes a host as far as it matters to a measurement: a number without its machine says
//! little.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use fluxline_doctor::Through;
use serde_json::{Value, json};

use crate::Error;

pub mod busy;
pub mod cores;
pub mod link;

/// Settings of the kernel that change the speed of a network, below /proc/sys.
const SYSCTLS: &[&str] = &[
    "net/core/rmem_max",
    "net/core/rmem_default",
    "net/core/wmem_max",
    "net/core/wmem_default",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/default_qdisc",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/udp_mem",
    "kernel/sched_rt_runtime_us",
    "vm/nr_hugepages",
];

/// Describes machine, processor, kernel, governor, clock, interfaces and settings. For the
/// interface of the measured link it adds card, driver, offloads, rings, interrupts and findings.
/// `None`: nothing here limits the link, as in virtual time.
///
/// Values that the host does not give are absent or null. Cost: some hundred small files.
#[must_use]
pub fn describe(through: Option<&Through>) -> Value {
    let mut host = host();
    if let Some(through) = through {
        host["link"] = link::describe(through);
        host["findings"] = link::findings(through);
    }
    host
}

fn host() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let sysctls: BTreeMap<&str, Option<String>> =
        SYSCTLS.iter().map(|name| (*name, read(format!("/proc/sys/{name}")))).collect();
    json!({
        "machine": read("/sys/class/dmi/id/product_name"),
        "host": read("/proc/sys/kernel/hostname"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "processor": of_cpuinfo(&cpuinfo, "model name"),
        "hypervisor": of_cpuinfo(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "cores_allowed": fluxline::pin::allowed_cores(),
        "memory_kib": of_meminfo("MemTotal"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "load": read("/proc/loadavg"),
        "mitigations": mitigations(),
        "interfaces": interfaces(),
        "sysctls": sysctls,
    })
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().replace('\t', " ")).filter(|text| !text.is_empty())
}

/// The first value of a name in /proc/cpuinfo.
fn of_cpuinfo(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn of_meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Lists the mitigations of processor defects: each makes system calls slower.
fn mitigations() -> BTreeMap<String, String> {
    let folder = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let entries = folder.into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| {
        let said = read(entry.path())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        said.starts_with("Mitigation").then_some((name, said))
    };
    entries.filter_map(named).collect()
}

/// Interfaces: state, MTU, speed, driver, queues, and how the kernel defers their interrupts.
fn interfaces() -> BTreeMap<String, Value> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let described = |entry: fs::DirEntry| {
        let path = entry.path();
        let number = |name: &str| read(path.join(name)).and_then(|text| text.parse::<i64>().ok());
        let driver = fs::read_link(path.join("device/driver")).ok();
        let driver = driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
        let queues = |kind: &str| {
            let found = fs::read_dir(path.join("queues")).into_iter().flatten().flatten();
            found.filter(|queue| queue.file_name().to_string_lossy().starts_with(kind)).count()
        };
        let value = json!({
            "state": read(path.join("operstate")),
            "mtu": number("mtu"),
            "speed_mbps": number("speed").filter(|speed| *speed > 0),
            "driver": driver,
            "queues": [queues("rx"), queues("tx")],
            "gro_flush_timeout_ns": number("gro_flush_timeout"),
            "napi_defer_hard_irqs": number("napi_defer_hard_irqs"),
            "threaded_napi": number("threaded"),
        });
        (entry.file_name().to_string_lossy().into_owned(), value)
    };
    entries.map(described).collect()
}

/// A key that cannot be guessed: 16 hexadecimal digits. Errors: the host has no random numbers.
pub fn random_key() -> Result<String, Error> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::host("/dev/urandom"))?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_says_what_it_is() {
        let host = describe(Some(&Through::Loopback));
        assert!(host["kernel"].as_str().is_some_and(|kernel| kernel.contains('.')), "{host}");
        assert!(host["cores"].as_u64().is_some_and(|cores| cores > 0), "{host}");
        assert!(host["interfaces"]["lo"]["mtu"].as_u64().is_some_and(|mtu| mtu > 0), "{host}");
        assert!(host["sysctls"].as_object().is_some_and(|all| all.len() == SYSCTLS.len()));
        assert!(host["link"].is_object() && host["findings"].is_array(), "{host}");
        let of_virtual_time = describe(None);
        assert!(of_virtual_time.get("findings").is_none(), "{of_virtual_time}");
    }

    #[test]
    fn processors_are_found_in_what_the_kernel_prints_and_not_in_garbage() {
        let text = "processor\t: 0\nmodel name\t: A: B @ 2 GHz\nflags\t\t: fpu hypervisor\n";
        assert_eq!(of_cpuinfo(text, "model name").as_deref(), Some("A: B @ 2 GHz"));
        assert_eq!(of_cpuinfo("\0\u{FFFD}no colon\n:\n", "model name"), None);
    }

    #[test]
    fn keys_differ() {
        let [one, other] = [(), ()].map(|()| random_key().expect("random numbers"));
        assert!(one != other && one.len() == 16, "{one} {other}");
    }
}
