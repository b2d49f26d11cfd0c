//! The control connection between the two sides of a benchmark, apart from the measured link.
//!
//! JSON messages over TCP, each with its length in front and none longer than
//! [`MESSAGE_BYTES_MAX`]. The near side connects, says hello and shows its key. The far side
//! carries out its orders: open the link, run an end of a trial, run a service. Measured data never
//! takes this way, and the way is silent while a measurement runs.

mod channel;
mod message;

pub use channel::{Channel, MESSAGE_BYTES_MAX, take_message};
pub use message::{Greeting, Message};

/// The default port of `fluxline bench --serve`. Chosen: no known service uses it, and it resembles
/// RoCEv2's 4791.
pub const PORT: u16 = 14_791;

/// The version of the messages; both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// Returns true if two keys are equal, in time that depends on their lengths only.
#[must_use]
pub fn is_key(shown: &str, own: &str) -> bool {
    let (shown, own) = (shown.as_bytes(), own.as_bytes());
    let differs = shown.iter().zip(own).fold(0, |differs, (one, other)| differs | (one ^ other));
    shown.len() == own.len() && std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn a_key_is_equal_to_itself_alone() {
        assert!(is_key("abc", "abc") && is_key("", ""));
        for wrong in ["", "ab", "abd", "abcd", "Abc"] {
            assert!(!is_key(wrong, "abc"), "{wrong}");
        }
    }
}
