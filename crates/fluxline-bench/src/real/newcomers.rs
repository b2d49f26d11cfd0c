//! Connections to the far side that have not shown the key yet.
//!
//! The server reads all of them at once. A client with the key is served, even while many silent
//! strangers are connected. Strangers cost bounded memory and time. Their connections, in all and
//! per address, the length of their message, and the time until it comes have limits.

use std::net::{IpAddr, SocketAddr, TcpStream};

use fluxline::clock;
use fluxline_core::guesses::Guesses;
use fluxline_core::{Moment, Span};

use crate::Error;
use crate::control::{Channel, Greeting, Message, is_key};

/// The time in which a newcomer must show the key.
const HELLO_LIMIT: Span = Span::from_ms(5000);
/// The largest number of such connections. A further one replaces the oldest of the address that
/// has most.
const NEWCOMERS_MAX: usize = 64;
/// The largest number from one address.
const PER_ADDRESS_MAX: usize = 8;
/// The longest message of a peer that has not shown the key \[byte\].
const MESSAGE_BYTES_MAX: usize = 4096;

/// The connections that have not shown the key.
#[derive(Default)]
pub(super) struct Newcomers {
    all: Vec<Newcomer>,
    guesses: Guesses,
    counters: NewcomerCounters,
}

fluxline_core::counters! {
    /// The counts of connections that did not show the key.
    pub struct NewcomerCounters {
        keys_wrong [Sum "key"] "Wrong keys that were shown" => "";
        silent [Sum "connection"]
            "Connections that were ended because they said nothing, or nothing that makes sense"
            => "";
        closed [Sum "connection"] "Connections that were closed before they said anything" => "";
    }
}

struct Newcomer {
    channel: Channel,
    from: SocketAddr,
    since: Moment,
}

/// A connection that has shown the key.
pub(super) struct Known {
    pub channel: Channel,
    pub from: SocketAddr,
    /// The link that will be measured.
    pub link: String,
}

/// The message of a newcomer.
enum Heard {
    Nothing,
    Key(Known),
    /// It has a wrong key or another version: a sentence for the user of the server.
    Refused(String),
    Gone,
}

impl Newcomers {
    /// Returns the counts of strangers.
    pub fn counters(&self) -> &NewcomerCounters {
        &self.counters
    }

    /// Adds a connection.
    pub fn add(&mut self, stream: TcpStream, from: SocketAddr) {
        // A socket that cannot be set up counts as closed.
        let Ok(channel) = Channel::with_limit(stream, MESSAGE_BYTES_MAX) else { return };
        let since = clock::monotonic();
        self.all.push(Newcomer { channel, from, since });
        if self.of(from.ip()) > PER_ADDRESS_MAX {
            self.drop_oldest_of(from.ip());
        } else if self.all.len() > NEWCOMERS_MAX
            && let Some(most) = self.all.iter().map(|of| of.from.ip()).max_by_key(|ip| self.of(*ip))
        {
            self.drop_oldest_of(most);
        }
    }

    fn of(&self, address: IpAddr) -> usize {
        self.all.iter().filter(|of| of.from.ip() == address).count()
    }

    /// The oldest comes first.
    fn drop_oldest_of(&mut self, address: IpAddr) {
        if let Some(index) = self.all.iter().position(|of| of.from.ip() == address) {
            self.all.remove(index);
            self.counters.silent += 1;
        }
    }

    /// Listens to all of them, and returns the first that shows `key`. Reports wrong keys and other
    /// versions to `say`.
    pub fn listen(&mut self, key: &str, say: &dyn Fn(&str)) -> Option<Known> {
        let now = clock::monotonic();
        let mut index = 0;
        while index < self.all.len() {
            match self.hear(index, key, now) {
                Heard::Nothing => index += 1,
                Heard::Key(known) => return Some(known),
                Heard::Refused(why) => say(&why),
                Heard::Gone => {}
            }
        }
        None
    }

    /// Reads the message of the newcomer at `index`, and removes a newcomer that sent one.
    fn hear(&mut self, index: usize, key: &str, now: Moment) -> Heard {
        let newcomer = &mut self.all[index];
        let address = newcomer.from.ip();
        if now.since(newcomer.since) > HELLO_LIMIT {
            self.all.remove(index);
            self.counters.silent += 1;
            return Heard::Gone;
        }
        if self.guesses.must_wait(address, now) {
            return Heard::Nothing;
        }
        let message = match newcomer.channel.poll() {
            Ok(None) => return Heard::Nothing,
            Ok(Some(message)) => message,
            Err(error) => {
                self.all.remove(index);
                let is_gone = matches!(error, Error::PeerGone { .. });
                self.counters.closed += u64::from(is_gone);
                self.counters.silent += u64::from(!is_gone);
                return Heard::Gone;
            }
        };
        let Newcomer { mut channel, from, .. } = self.all.remove(index);
        let Message::Hello { greeting, key: shown, link } = message else {
            self.counters.silent += 1;
            return Heard::Gone;
        };
        if !is_key(&shown, key) {
            self.counters.keys_wrong += 1;
            self.guesses.note_wrong(address, now);
            let why = "the key is wrong; give the one that `fluxline bench --serve` printed, with \
                       --key";
            channel.send_if_possible(&Message::Refused { why: why.to_owned() });
            return Heard::Refused(format!("{from}: {why}"));
        }
        self.guesses.note_right(address);
        if let Err(error) = greeting.check() {
            // The same error from the other side's point of view.
            let theirs = Error::Version { theirs: Greeting::ours().text(), ours: greeting.text() };
            channel.send_if_possible(&Message::Refused { why: theirs.to_string() });
            return Heard::Refused(format!("{from}: {error}"));
        }
        channel.lift_limit();
        Heard::Key(Known { channel, from, link })
    }
}
