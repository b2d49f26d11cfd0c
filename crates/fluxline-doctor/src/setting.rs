//! Settings of a host that can be changed, with their values before and after.
//!
//! Nearly all of it is a file of /proc/sys or /sys; three things of a card have no file and go
//! through the ethtool ioctl (<linux/ethtool.h>).

use std::fmt;
use std::io;

use super::files::Files;
use fluxline::host::ethtool;

/// Something of a host that has a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// A file of /proc/sys or /sys, by its path.
    File(String),
    /// Receive descriptors of an interface.
    Ring(String),
    /// The time that a card gathers packets before it interrupts \[us\].
    Coalescing(String),
    /// Generic receive offload (GRO): 0 or 1.
    Gro(String),
}

/// A setting with its wanted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The setting.
    pub setting: Setting,
    /// To what.
    pub value: String,
}

/// A host whose settings can be read and written; tests have their own.
pub trait Settings {
    /// The value, on one line with single blanks.
    fn read(&self, setting: &Setting) -> io::Result<String>;
    /// Sets it; in force on return.
    fn write(&self, setting: &Setting, value: &str) -> io::Result<()>;
}

impl Settings for Files {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        match setting {
            Setting::File(path) => {
                std::fs::read_to_string(self.path(path)).map(|text| chosen(&text))
            }
            _ if !self.is_this_host() => Err(io::ErrorKind::Unsupported.into()),
            Setting::Ring(card) => ethtool::ring(card).map(|ring| ring.now.to_string()),
            Setting::Coalescing(card) => ethtool::coalescing(card).map(|now| now.us.to_string()),
            Setting::Gro(card) => ethtool::gro(card).map(|on| u8::from(on).to_string()),
        }
    }

    fn write(&self, setting: &Setting, value: &str) -> io::Result<()> {
        let number = || value.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        match setting {
            Setting::File(path) => Files::write(self, path, value),
            _ if !self.is_this_host() => Err(io::ErrorKind::Unsupported.into()),
            Setting::Ring(card) => ethtool::set_ring(card, number()?),
            Setting::Coalescing(card) => ethtool::set_coalescing(card, number()?),
            Setting::Gro(card) => ethtool::set_gro(card, value == "1"),
        }
    }
}

/// A file's value on one line: the word in brackets where it lists choices (`always [madvise]`).
fn chosen(text: &str) -> String {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    if let Some((word, _)) = bracketed {
        return word.to_owned();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Setting {
    /// A value of /proc/sys by its dotted name.
    pub(super) fn sysctl(name: &str) -> Setting {
        Setting::File(format!("/proc/sys/{}", name.replace('.', "/")))
    }

    /// Parses the text that [`Setting::fmt`] writes; returns `None` for settings that this program
    /// never changes.
    pub(super) fn parse(text: &str) -> Option<Setting> {
        let (kind, what) = text.split_once(' ')?;
        let what = what.to_owned();
        let outside = what.split('/').any(|part| part == "..");
        match kind {
            "file" if !outside && (what.starts_with("/proc/sys/") || what.starts_with("/sys/")) => {
                Some(Setting::File(what))
            }
            "ring" => Some(Setting::Ring(what)),
            "coalescing" => Some(Setting::Coalescing(what)),
            "gro" => Some(Setting::Gro(what)),
            _ => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::File(path) => write!(out, "file {path}"),
            Setting::Ring(card) => write!(out, "ring {card}"),
            Setting::Coalescing(card) => write!(out, "coalescing {card}"),
            Setting::Gro(card) => write!(out, "gro {card}"),
        }
    }
}

impl Action {
    pub(super) fn file(path: impl Into<String>, value: impl fmt::Display) -> Action {
        Action { setting: Setting::File(path.into()), value: value.to_string() }
    }

    pub(super) fn sysctl(name: &str, value: impl fmt::Display) -> Action {
        Action { setting: Setting::sysctl(name), value: value.to_string() }
    }

    /// The file that is written, where it is one.
    pub(super) fn path(&self) -> Option<&str> {
        match &self.setting {
            Setting::File(path) => Some(path),
            _ => None,
        }
    }

    /// The command that does the same by hand.
    #[must_use]
    pub fn command(&self) -> String {
        let value = &self.value;
        match &self.setting {
            Setting::File(path) => command_of_file(path, value),
            Setting::Ring(card) => format!("sudo ethtool -G {card} rx {value}"),
            Setting::Coalescing(card) => format!("sudo ethtool -C {card} rx-usecs {value}"),
            Setting::Gro(card) => {
                format!("sudo ethtool -K {card} gro {}", if value == "1" { "on" } else { "off" })
            }
        }
    }
}

fn command_of_file(path: &str, value: &str) -> String {
    let card = path.strip_prefix("/sys/class/net/").and_then(|rest| rest.strip_suffix("/mtu"));
    if let Some(card) = card {
        return format!("sudo ip link set {card} mtu {value}");
    }
    match path.strip_prefix("/proc/sys/") {
        // A name with a dot (eth0.7) has no dotted form.
        Some(name) if !name.contains('.') && !value.contains(' ') => {
            format!("sudo sysctl -w {}={value}", name.replace('/', "."))
        }
        _ => format!("echo {value} | sudo tee {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_setting_is_read_back() {
        let all = [
            Setting::sysctl("net.core.rmem_max"),
            Setting::File("/sys/class/net/eth0/mtu".into()),
            Setting::Ring("eth0".into()),
            Setting::Coalescing("eth0".into()),
            Setting::Gro("eth0".into()),
        ];
        for setting in all {
            assert_eq!(Setting::parse(&setting.to_string()), Some(setting));
        }
    }

    #[test]
    fn a_state_file_cannot_name_files_that_are_no_settings() {
        for text in ["file /etc/passwd", "file /proc/sys/../../etc/passwd", "file", "", "x y"] {
            assert_eq!(Setting::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_chosen_word_of_a_list_is_its_value() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("575802\t767736\t1151604\n"), "575802 767736 1151604");
    }

    #[test]
    fn each_action_has_the_command_that_people_know() {
        let command = |setting, value: &str| Action { setting, value: value.into() }.command();
        let file = |path: &str| Setting::File(path.into());
        assert_eq!(
            command(Setting::sysctl("net.core.rmem_max"), "67108864"),
            "sudo sysctl -w net.core.rmem_max=67108864"
        );
        assert_eq!(
            command(file("/sys/class/net/eth0/mtu"), "9000"),
            "sudo ip link set eth0 mtu 9000"
        );
        assert_eq!(
            command(file("/proc/sys/net/ipv4/conf/eth0.7/rp_filter"), "2"),
            "echo 2 | sudo tee /proc/sys/net/ipv4/conf/eth0.7/rp_filter"
        );
        assert_eq!(command(Setting::Ring("eth0".into()), "4096"), "sudo ethtool -G eth0 rx 4096");
        assert_eq!(command(Setting::Gro("eth0".into()), "1"), "sudo ethtool -K eth0 gro on");
    }
}
