//! Push rings on shared memory: records from one producer to one consumer.

use std::ffi::c_void;
use std::time::Duration;

use fluxline::push::{
    ConsumerWait, NextError, PushConsumer, PushOpenError, PushProducer, PushRefused,
};
use fluxline_core::fabric::RemoteId;

use crate::border::{self, Out, Refused, bytes, guard, handle, make};
use crate::{FluxlineCode, FluxlineNode};

/// The writing end of a push ring.
pub struct FluxlineProducer(PushProducer);

/// The reading end of a push ring.
pub struct FluxlineConsumer(PushConsumer);

/// Claims the push ring in a peer's region on shm://, and writes the new producer to *producer. A ring has
/// one producer at a time. FLUXLINE_CODE_REFUSED: the ring has a producer, or is not a push ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_producer(
    node: *mut FluxlineNode,
    remote: u32,
    producer: *mut *mut FluxlineProducer,
) -> FluxlineCode {
    guard(|| {
        let (producer, node) = (Out::new(producer)?, handle(node)?);
        let made =
            node.link.shm()?.push_producer(RemoteId(remote)).map_err(|error| match error {
                PushOpenError::ConsumerGone => Refused::gone(error),
                _ => Refused::host(error),
            })?;
        make(producer, FluxlineProducer(made));
        Ok(())
    })
}

/// Copies a record into the ring; nobody sees it before fluxline_publish. FLUXLINE_CODE_FULL: try
/// again after a while. FLUXLINE_CODE_GONE, for good: the consumer has closed or died. Tries that
/// find the ring full notice that within 100 ms, or after 64 tries if these are rarer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_push(
    producer: *mut FluxlineProducer,
    from: *const c_void,
    count: usize,
) -> FluxlineCode {
    guard(|| {
        let record = bytes(from, count)?;
        handle(producer)?.0.push(record).map_err(not_pushed)
    })
}

fn not_pushed(refused: PushRefused) -> Refused {
    match refused {
        PushRefused::Full => Refused::of(FluxlineCode::Full, &refused),
        PushRefused::TooLong { .. } => Refused::argument(refused),
        PushRefused::ConsumerGone => Refused::gone(refused),
        _ => Refused::host(refused),
    }
}

/// Shows all records to the consumer; call once per batch. FLUXLINE_CODE_GONE: nobody reads them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_publish(producer: *mut FluxlineProducer) -> FluxlineCode {
    guard(|| {
        let FluxlineProducer(ring) = handle(producer)?;
        ring.publish();
        ring.ended().map_or(Ok(()), |why| Err(not_pushed(why)))
    })
}

/// Publishes what is left and ends the producer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_producer_close(producer: *mut FluxlineProducer) {
    border::end(producer);
}

/// Makes a push ring of ring_bytes (a power of two) on shm://; its region, to be exported with
/// FLUXLINE_PUT, is written to *region, the consumer to *consumer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_consumer(
    node: *mut FluxlineNode,
    ring_bytes: u64,
    region: *mut u32,
    consumer: *mut *mut FluxlineConsumer,
) -> FluxlineCode {
    guard(|| {
        let (region, consumer) = (Out::new(region)?, Out::new(consumer)?);
        let made = handle(node)?
            .link
            .shm()?
            .push_consumer(ring_bytes, ConsumerWait::Sleeps)
            .map_err(Refused::host)?;
        region.put(made.region().0);
        make(consumer, FluxlineConsumer(made));
        Ok(())
    })
}

/// The oldest record, in place until the next call: its address to *record, its size to *count. The
/// producer's process can change these bytes at any time: copy what you check before you use it.
/// FLUXLINE_CODE_NOTHING: there is none now. FLUXLINE_CODE_GONE: none, and the producer has closed
/// or died; another may come. FLUXLINE_CODE_REFUSED, for good: the producer broke the ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_next(
    consumer: *mut FluxlineConsumer,
    record: *mut *const c_void,
    count: *mut usize,
) -> FluxlineCode {
    guard(|| {
        let (record, count) = (Out::new(record)?, Out::new(count)?);
        let found = handle(consumer)?.0.next().map_err(|ended| match ended {
            NextError::Gone => Refused::gone(ended),
            NextError::Broken(_) => Refused::host(ended),
        })?;
        let found = found.ok_or_else(Refused::nothing)?;
        count.put(found.len());
        record.put(found.as_ptr().cast());
        Ok(())
    })
}

/// Sleeps until there is a record, at most so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_consumer_wait(
    consumer: *mut FluxlineConsumer,
    timeout_ms: u32,
) -> FluxlineCode {
    guard(|| {
        handle(consumer)?.0.wait(Duration::from_millis(timeout_ms.into()));
        Ok(())
    })
}

/// Ends the consumer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_consumer_close(consumer: *mut FluxlineConsumer) {
    border::end(consumer);
}
