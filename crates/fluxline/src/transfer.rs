//! Short transfers by stores, long ones by descriptors: one call that takes the better way.
//!
//! Where a link maps peers' regions, a short transfer is cheapest as a store through the window,
//! and a long one as a put, which a DMA engine or a better copy may carry. From which size on is
//! measured, not guessed: [`Capabilities::crossover_bytes`].
//!
//! ```
//! use fluxline::transfer::{Outlet, Way};
//! use fluxline_core::Moment;
//! use fluxline_core::fabric::memory::Lab;
//! use fluxline_core::fabric::*;
//!
//! let lab = Lab::new();
//! let (mut builder, mut board) = (lab.node("builder")?, lab.node("board")?);
//! let region = builder.register(4096)?;
//! builder.export(region, Name::parse("samples")?, Grant { rights: Rights::PUT, key: Key(7) })?;
//! let endpoint = board.connect("builder", Reliability::Reliable)?;
//! let now = Moment::default();
//! while board.poll(now).is_some() {}
//! let remote = board.import(endpoint, Name::parse("samples")?, Key(7))?;
//! while board.poll(now).is_some() {}
//!
//! let outlet = Outlet::new(&board, endpoint, remote)?;
//! assert_eq!(outlet.way(64), Way::Put); // this link has no crossover: always by put
//! outlet.write(&mut board, 0, b"sample", Some(42))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use fluxline_core::fabric::{
    AccessError, Capabilities, EndpointId, Fabric, Local, Memory, PostError, RemoteId, Target, Work,
};

/// How a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Stored through the mapped window by the thread that calls.
    Store,
    /// Posted as a put.
    Put,
}

/// The better way for so many bytes on a link; `has_window`: the region is mapped.
#[must_use]
pub fn way(capabilities: &Capabilities, has_window: bool, bytes: u64) -> Way {
    // 0 says that the window is never better, not even for nothing.
    let is_short = capabilities.crossover_bytes > 0 && bytes <= capabilities.crossover_bytes;
    if has_window && is_short { Way::Store } else { Way::Put }
}

/// A peer's region, to be written the better way.
pub struct Outlet {
    endpoint: EndpointId,
    remote: RemoteId,
    window: Option<Arc<dyn Memory>>,
    capabilities: Capabilities,
}

impl Outlet {
    /// To an imported region. Errors: [`AccessError`], there is none.
    pub fn new(
        fabric: &dyn Fabric,
        endpoint: EndpointId,
        remote: RemoteId,
    ) -> Result<Outlet, AccessError> {
        let window = fabric.window(remote)?;
        Ok(Outlet { endpoint, remote, window, capabilities: *fabric.capabilities() })
    }

    /// How so many bytes will go.
    #[must_use]
    pub fn way(&self, bytes: u64) -> Way {
        way(&self.capabilities, self.window.is_some(), bytes)
    }

    /// Writes `bytes` at `offset`; with `notify`, the owner then gets this value. The bytes are the
    /// caller's again at return; no completion follows unless it fails.
    ///
    /// Writes are placed in order with each other only where the link is ordered and all go one
    /// way: what must be seen after something else is written with the notification. Errors:
    /// [`PostError`]; with `Full`, the bytes may be in place already and are to be written again.
    pub fn write(
        &self,
        fabric: &mut dyn Fabric,
        offset: u64,
        bytes: &[u8],
        notify: Option<u32>,
    ) -> Result<Way, PostError> {
        let way = self.way(bytes.len() as u64);
        let mut from = bytes;
        if let (Way::Store, Some(window)) = (way, &self.window) {
            window.write(offset, bytes).map_err(PostError::Remote)?;
            if notify.is_none() {
                return Ok(way);
            }
            // Only the word is left to be said: its last byte once more carries it.
            from = &bytes[bytes.len().saturating_sub(1)..];
        }
        let offset = offset + (bytes.len() - from.len()) as u64;
        let to = Target { remote: self.remote, offset };
        let work = Work::Put { from: Local::Bytes(from), to, notify, complete_at: None };
        fabric.post(self.endpoint, 0, work)?;
        Ok(way)
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::fabric::{Completion, Grant, Key, Name, Reliability, Rights};

    use super::*;
    use crate::clock;
    use crate::shm::{Shm, ShmConfig};

    /// Two nodes on shared memory with this crossover, joined over a region of 64 KiB.
    fn joined(crossover_bytes: u64) -> (tempfile::TempDir, Shm, Shm, Outlet, Arc<dyn Memory>) {
        let base = tempfile::tempdir().expect("a folder");
        let config = ShmConfig {
            base: Some(base.path().join("groups")),
            crossover_bytes,
            ..ShmConfig::default()
        };
        let group = Name::parse("transfer").expect("a name");
        let node = |name| Shm::open(&group, &Name::parse(name).expect("a name"), config.clone());
        let (mut owner, mut writer) = (node("owner").expect("free"), node("writer").expect("free"));
        let region = owner.register(64 << 10).expect("memory");
        let samples = || Name::parse("samples").expect("a name");
        owner.export(region, samples(), Grant { rights: Rights::PUT, key: Key(3) }).expect("new");
        let endpoint = writer.connect("owner", Reliability::Reliable).expect("it is there");
        let mut connected = false;
        while !connected {
            owner.poll(clock::now());
            connected = matches!(writer.poll(clock::now()), Some(Completion::Connected { .. }));
        }
        let remote = writer.import(endpoint, samples(), Key(3)).expect("it is exported");
        let imported = |what: &Completion| matches!(what, Completion::Imported { .. });
        while !writer.poll(clock::now()).as_ref().is_some_and(imported) {
            owner.poll(clock::now());
        }
        let outlet = Outlet::new(&writer, endpoint, remote).expect("imported");
        let memory = owner.memory(region).expect("its own");
        (base, owner, writer, outlet, memory)
    }

    #[test]
    fn the_crossover_decides_and_both_ways_write_and_notify_the_same() {
        for crossover_bytes in [0, 1, 1000, u64::MAX] {
            let (_base, mut owner, mut writer, outlet, memory) = joined(crossover_bytes);
            assert_eq!(writer.capabilities().crossover_bytes, crossover_bytes);
            for (number, bytes) in [1_u64, 8, 999, 1000, 1001, 20_000].into_iter().enumerate() {
                let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
                let is_short = crossover_bytes > 0 && bytes <= crossover_bytes;
                let expected = if is_short { Way::Store } else { Way::Put };
                let value = number as u32;
                let way = outlet.write(&mut writer, 16, &content, Some(value)).expect("room");
                assert_eq!(way, expected, "{bytes} B, crossover {crossover_bytes} B");
                let is_it = |what: Completion| match what {
                    Completion::Notified { value: of, .. } => of == value,
                    _ => false,
                };
                let heard = (0..1000).any(|_| owner.poll(clock::now()).is_some_and(is_it));
                assert!(heard, "{bytes} B by {way:?} was not notified");
                let mut there = vec![0; bytes as usize];
                memory.read(16, &mut there).expect("inside");
                assert_eq!(there, content, "{bytes} B by {way:?}");
            }
        }
    }

    #[test]
    fn what_leaves_the_region_is_refused_by_either_way_and_writes_nothing() {
        for crossover_bytes in [0, u64::MAX] {
            let (_base, _owner, mut writer, outlet, memory) = joined(crossover_bytes);
            let end = memory.bytes();
            for (offset, bytes) in [(end, 1), (end - 4, 8), (u64::MAX, 8)] {
                let refused = outlet.write(&mut writer, offset, &vec![1; bytes], None);
                let error = refused.expect_err("it leaves the region");
                assert!(matches!(error, PostError::Remote(_)), "{offset}: {error}");
            }
            let mut last = [9; 4];
            memory.read(end - 4, &mut last).expect("inside");
            assert_eq!(last, [0; 4]);
        }
    }
}
