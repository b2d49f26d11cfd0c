//! Holds emulated sensors back while too many of their datagrams are on the way to the receiver.
//!
//! A real sensor never waits, and by default an emulator does not either: datagrams that do not fit
//! into the socket's buffer are lost, and counted. Where loss would show nothing, such as a
//! demonstration on a busy machine whose kernel grants 208 KiB, a window keeps the emulator from
//! outrunning the receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time after which missing datagrams are lost; the window then begins anew.
const LOST_AFTER: Duration = Duration::from_millis(500);
/// Pause at a full window; the kernel adds about 55 us to it.
const NAP: Duration = Duration::from_micros(10);

/// The sensors' side.
#[derive(Debug)]
pub(super) struct Window {
    most: u64,
    sent: u64,
    arrived: Arrived,
    lost_after: Duration,
}

/// The receiver's side.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived(Arc<AtomicU64>);

impl Arrived {
    /// Sets the number of datagrams that have arrived since the beginning.
    pub fn set(&self, datagrams: u64) {
        // The number alone is shared: nothing else is read after it.
        self.0.store(datagrams, Ordering::Relaxed);
    }
}

impl Window {
    /// Returns a window of at most `most` datagrams on the way.
    pub fn new(most: u32) -> Window {
        Window { most: most.into(), sent: 0, arrived: Arrived::default(), lost_after: LOST_AFTER }
    }

    /// Returns the receiver's side.
    pub fn arrived(&self) -> Arrived {
        self.arrived.clone()
    }

    /// Returns the number of datagrams that may be sent at once.
    pub fn burst(&self) -> usize {
        (self.most / 2).max(1) as usize
    }

    /// Waits until `more` datagrams fit, and counts them as sent.
    pub fn make_room(&mut self, more: u64) {
        let mut seen = self.arrived.0.load(Ordering::Relaxed);
        let mut progress = Instant::now();
        while self.sent + more > seen + self.most {
            if progress.elapsed() > self.lost_after {
                self.sent = seen;
                break;
            }
            std::thread::sleep(NAP);
            let now = self.arrived.0.load(Ordering::Relaxed);
            if now != seen {
                (seen, progress) = (now, Instant::now());
            }
        }
        self.sent += more;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Returns a full window of eight whose missing datagrams are lost after that time.
    fn full(lost_after: Duration) -> Window {
        let mut window = Window { lost_after, ..Window::new(8) };
        window.make_room(8);
        window
    }

    #[test]
    fn full_window_waits_for_arrivals() {
        let mut window = full(Duration::from_secs(60));
        let arrived = window.arrived();
        let is_late = Arc::new(AtomicBool::new(false));
        let was_late = is_late.clone();
        let receiver = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            is_late.store(true, Ordering::SeqCst);
            arrived.set(4);
        });
        window.make_room(4);
        assert!(was_late.load(Ordering::SeqCst), "it sent before anything had arrived");
        receiver.join().expect("it does not panic");
        assert_eq!(window.sent, 12, "nothing counts as lost");
    }

    #[test]
    fn full_window_does_not_wait_for_what_is_lost() {
        let mut window = full(Duration::from_millis(1));
        window.arrived().set(4);
        window.make_room(4);
        window.make_room(4); // nothing arrives any more: what was sent is lost
        assert_eq!(window.sent, 8);
    }
}
