//! Faults of the page stay in the page.
//!
//! A panic while a request is answered becomes status 500, and the server goes on. The usual
//! message of a panic would go to standard error, which may be a pipe that nobody reads: its writer
//! then waits for ever. So it goes to the log, at most one line a minute, and only if there is one.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::pin;
use std::sync::{Mutex, Once, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Time from one line in the log to the next.
const PAUSE: Duration = Duration::from_secs(60);

thread_local! {
    /// Number of contained calls that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Does some work; `None` when it panics.
pub fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    hook();
    DEPTH.set(DEPTH.get() + 1);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    result.ok()
}

/// Waits for a future; `None` when it panics.
pub async fn contain_future<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match contain(|| future.as_mut().poll(context)) {
        Some(poll) => poll.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

/// Takes the messages of contained panics away from the usual hook.
fn hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match DEPTH.get() {
            0 => usual(info),
            _ => note(info),
        }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_some_and(|last| now.duration_since(last) < PAUSE) {
        return;
    }
    *last = Some(now);
    drop(last);
    let place = info.location().map_or_else(String::new, ToString::to_string);
    let message = text_of(info.payload());
    tracing::error!(place, message, "an answer of the page failed; the run is not concerned");
}

fn text_of(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_contained_in_calls_and_futures_and_what_works_passes() {
        assert_eq!(contain(|| 7), Some(7));
        assert_eq!(contain(|| -> u32 { panic!("a fault of a test") }), None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let later = |fails: bool| async move {
            tokio::task::yield_now().await;
            assert!(!fails, "a fault of a test");
            7
        };
        assert_eq!(runtime.block_on(contain_future(later(false))), Some(7));
        assert_eq!(runtime.block_on(contain_future(later(true))), None);
        assert_eq!(DEPTH.get(), 0);
    }
}
