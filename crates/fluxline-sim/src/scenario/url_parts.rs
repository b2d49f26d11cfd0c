//! The parts of a URL of a simulated link: keys with their values, and what is wrong with them.

use crate::core::fault::Fault;
use crate::net::ethernet;
use crate::net::myrinet;
use crate::net::sci::cluster::ClusterError;

/// The reason why a URL could not be opened, in one sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The URL is for another link.
    #[error(
        "{url:?} is not a simulated link; write sim:sci, sim:atoll, sim:myrinet, sim:qsnet, \
         sim:infiniband or sim:ethernet, for example sim:sci?nodes=8&model=lc2"
    )]
    Link {
        /// The given URL.
        url: String,
    },
    /// A part has an unknown key, or is not of the form `key=value`.
    #[error("unknown part {part:?} of a simulated link; its keys are {keys}, each as key=value")]
    Key {
        /// The given part.
        part: String,
        /// The keys of this network.
        keys: &'static str,
    },
    /// A key occurs twice.
    #[error("{key} is given twice; give it once")]
    Twice {
        /// The key.
        key: String,
    },
    /// The key does not accept the value.
    #[error("{key}={value} is invalid; write {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The file of a dump exists, or cannot be made.
    #[error("dump={file} cannot be written: {problem}; name a file that does not exist yet")]
    Dump {
        /// The file.
        file: String,
        /// The message of the operating system.
        problem: String,
    },
    /// The parts of the URL do not fit together.
    #[error("the simulated link is invalid: {0}")]
    Cluster(#[from] ClusterError),
    /// The keys of an ATOLL network are wrong.
    #[error("sim:atoll: {0}")]
    Atoll(String),
    /// The parts of the URL do not make a network.
    #[error("the simulated link is invalid: {0}")]
    Parameters(String),
    /// The parts of the URL do not make an Ethernet.
    #[error("the simulated link is invalid: {0}")]
    Ethernet(String),
}

impl From<ethernet::cluster::ClusterError> for OpenError {
    fn from(error: ethernet::cluster::ClusterError) -> OpenError {
        OpenError::Ethernet(error.to_string())
    }
}

/// The faults of a URL.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UrlFaults {
    /// The chance that a bit of a link is wrong.
    pub bits: f64,
    /// The chance that a packet is lost.
    pub loss: f64,
    /// Faults with their times.
    pub list: Vec<Fault>,
}

impl From<myrinet::ConfigError> for OpenError {
    fn from(error: myrinet::ConfigError) -> OpenError {
        OpenError::Parameters(error.to_string())
    }
}

/// The faults of networks that do not lose packets by themselves.
pub(super) const NO_LOSS: &str = "bits:1e-6 (the chance of a wrong bit on a link), host:3@1ms, \
                                  power:3@1ms, cable:3@1ms or repair:3@2ms, joined by commas";

/// Returns the keys behind the name of a network.
pub(super) fn keys_behind<'a>(
    url: &'a str,
    network: &str,
    known: &'static str,
) -> Result<Keys<'a>, OpenError> {
    let wrong = || OpenError::Link { url: url.to_owned() };
    let rest = url.strip_prefix(network).ok_or_else(wrong)?;
    match rest.strip_prefix('?') {
        Some(keys) => Keys::parse(keys, known),
        None if rest.is_empty() => Ok(Keys::default()),
        None => Err(wrong()),
    }
}

/// The parts behind the `?`.
#[derive(Debug, Default)]
pub(super) struct Keys<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Keys<'a> {
    pub(super) fn parse(text: &'a str, all: &'static str) -> Result<Keys<'a>, OpenError> {
        let mut keys = Keys::default();
        for part in text.split('&') {
            let known = |key: &str| all.split(", ").any(|of| of == key);
            let pair = part.split_once('=').filter(|(key, _)| known(key));
            let (key, value) =
                pair.ok_or_else(|| OpenError::Key { part: part.to_owned(), keys: all })?;
            if keys.find(key).is_some() {
                return Err(OpenError::Twice { key: key.to_owned() });
            }
            keys.0.push((key, value));
        }
        Ok(keys)
    }

    pub(super) fn find(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(of, _)| *of == key).map(|of| of.1)
    }

    pub(super) fn refused(&self, key: &'static str, expected: &'static str) -> OpenError {
        let value = self.find(key).unwrap_or_default().to_owned();
        OpenError::Value { key, value, expected }
    }

    /// Returns the value of a key that is a finite number, not below 0.
    pub(super) fn amount(
        &self,
        key: &'static str,
        otherwise: f64,
        expected: &'static str,
    ) -> Result<f64, OpenError> {
        let Some(text) = self.find(key) else { return Ok(otherwise) };
        let value = text.parse().ok().filter(|of: &f64| of.is_finite() && *of >= 0.0);
        value.ok_or_else(|| self.refused(key, expected))
    }

    /// Returns the faults of the key `fault`: random ones, and those with their times.
    pub(super) fn faults(&self, expected: &'static str) -> Result<UrlFaults, OpenError> {
        let mut faults = UrlFaults::default();
        let wrong = || self.refused("fault", expected);
        for part in self.find("fault").into_iter().flat_map(|text| text.split(',')) {
            let (kind, value) = part.split_once(':').ok_or_else(wrong)?;
            let chance = |most: f64| value.parse().ok().filter(|of| (0.0..=most).contains(of));
            match kind {
                "bits" => faults.bits = chance(0.01).ok_or_else(wrong)?,
                "loss" => faults.loss = chance(0.9).ok_or_else(wrong)?,
                _ => faults.list.push(Fault::parse(part).ok_or_else(wrong)?),
            }
        }
        Ok(faults)
    }

    pub(super) fn number(
        &self,
        key: &'static str,
        otherwise: u64,
        expected: &'static str,
    ) -> Result<u64, OpenError> {
        match self.find(key) {
            None => Ok(otherwise),
            Some(text) => text.parse().map_err(|_| self.refused(key, expected)),
        }
    }
}
