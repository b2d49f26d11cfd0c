//! The push ring of shared memory, for programs that use any link.

use std::ptr::NonNull;
use std::time::Duration;

use fluxline_core::fabric::RemoteId;
use fluxline_core::fabric::push::{
    NativeReceiver, NativeRing, NativeSender, NextError, PushCounters, PushOpenError, PushRefused,
    Record, RingLink, SharedBytes,
};
use fluxline_core::{Moment, Span};

use super::Shm;
use crate::push::{ConsumerWait, PushConsumer, PushProducer};
use crate::sys::map::SharedMap;
use crate::sys::push::{Consumer, Producer};
use crate::sys::shim::Ordering;

impl RingLink for Shm {
    fn make_ring(&mut self, bytes: u64) -> Result<NativeRing, PushOpenError> {
        let PushConsumer { raw, region } = self.push_consumer(bytes, ConsumerWait::Sleeps)?;
        Ok(NativeRing { region, receiver: Box::new(raw) })
    }

    fn attach(&mut self, remote: RemoteId) -> Result<Box<dyn NativeSender>, PushOpenError> {
        let PushProducer(raw) = self.push_producer(remote)?;
        Ok(Box::new(raw))
    }
}

impl NativeSender for Producer {
    #[inline]
    fn push(&mut self, stamp: Option<Moment>, bytes: &[u8]) -> Result<(), PushRefused> {
        match stamp {
            Some(at) => self.push_with(at.as_ns(), bytes),
            None => Producer::push(self, bytes),
        }
    }

    fn publish(&mut self) {
        Producer::publish(self);
    }

    fn ended(&self) -> Option<PushRefused> {
        Producer::ended(self)
    }

    fn resumes_from(&self) -> Option<u64> {
        Producer::resumes_from(self)
    }

    fn count_delivered(&mut self) {
        Producer::count_delivered(self);
    }

    fn record_bytes_max(&self) -> usize {
        Producer::record_bytes_max(self)
    }

    fn counters(&self) -> &PushCounters {
        Producer::counters(self)
    }
}

impl NativeReceiver for Consumer {
    #[inline]
    fn next(&mut self) -> Result<Option<Record<'_>>, NextError> {
        let record = Consumer::next(self)?;
        Ok(record.map(|record| {
            let (map, place) = record.place();
            Record::shared(map, place, record.len())
        }))
    }

    fn begin_at(&mut self, taken: u64) {
        Consumer::begin_at(self, taken);
    }

    fn taken(&self) -> u64 {
        Consumer::taken(self)
    }

    fn wait(&mut self, timeout: Span) {
        Consumer::wait(self, Duration::from_nanos(timeout.as_ns()));
    }

    fn counters(&self) -> &PushCounters {
        Consumer::counters(self)
    }
}

impl SharedBytes for SharedMap {
    #[inline]
    fn copy_to(&self, place: u64, bytes: usize, into: &mut Vec<u8>) {
        self.read_record(place, bytes, into);
    }

    fn word(&self, place: u64) -> u64 {
        SharedMap::word(self, place).load(Ordering::Relaxed)
    }

    fn address(&self, place: u64, bytes: usize) -> NonNull<u8> {
        self.at(place, bytes)
    }
}
