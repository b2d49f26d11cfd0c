//! Checkpoints: the whole state of a partition's builder between two records, as bytes.
//!
//! A builder that takes over goes on from the newest checkpoint instead of the run's beginning. The
//! bytes are a head, the state, and a CRC-32C. Serde's derives write the state, so a new field is
//! in it by itself. The bytes may come from anybody: reading is bounded, and refuses a state that
//! no builder had.

use std::sync::Arc;

use fluxline_cluster::{PartitionBuilder, Unresumed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::BuilderConfig;
use postcard::ser_flavors::Flavor;
use serde::Serialize;

pub use super::refused::{Refused, VERSION};

/// The first bytes of a checkpoint.
const MAGIC: [u8; 4] = *b"FXLC";
/// Magic, version, run, digest, batch, offset and mark.
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 8 + 8 + 8;
const CRC_BYTES: usize = 4;
/// The longest checkpoint \[byte\]; a state beyond it is not saved.
pub const CHECKPOINT_BYTES_MAX: usize = 2 << 30;

/// A saved state of a partition's builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of the next batch.
    pub batch: u64,
    /// Offset of the first record that a builder needs to go on from it.
    pub offset: u64,
    /// The head, the state and the check sum.
    pub bytes: Arc<[u8]>,
}

/// Returns the digest of everything that batches depend on beside the records.
fn digest(nodes: usize, config: &BuilderConfig) -> u64 {
    let bytes = postcard::to_allocvec(&(nodes, config)).expect("plain data has a length");
    crc_fast::crc64_nvme(&bytes)
}

impl Checkpoint {
    /// Returns the whole state of a builder; `None` when it is longer than
    /// [`CHECKPOINT_BYTES_MAX`].
    #[must_use]
    pub fn of(builder: &PartitionBuilder) -> Option<Checkpoint> {
        let (batch, offset) = (builder.next_batch(), builder.needed_offset());
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&builder.run().to_le_bytes());
        head.extend_from_slice(
            &digest(builder.nodes_expected(), builder.builder().config()).to_le_bytes(),
        );
        head.extend_from_slice(&batch.to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&builder.now().as_ns().to_le_bytes());
        let mut bytes = to_bytes(builder, head)?;
        let crc = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let fits = bytes.len() <= CHECKPOINT_BYTES_MAX;
        fits.then(|| Checkpoint { batch, offset, bytes: bytes.into() })
    }

    /// Makes the builder that was saved.
    ///
    /// Errors: [`Refused`]. Memory: that of the builder, and never more than a small multiple of
    /// the bytes.
    pub fn restore(
        run: u64,
        nodes: usize,
        config: &BuilderConfig,
        bytes: &[u8],
    ) -> Result<PartitionBuilder, Refused> {
        let head = Head::of(bytes)?;
        if head.version != VERSION {
            return Err(Refused::Version(head.version));
        }
        if head.run != run {
            return Err(Refused::Run(head.run));
        }
        if head.digest != digest(nodes, config) {
            return Err(Unresumed::Experiment.into());
        }
        let state = &bytes[HEAD_BYTES..bytes.len() - CRC_BYTES];
        let (builder, rest): (PartitionBuilder, &[u8]) =
            postcard::take_from_bytes(state).map_err(|_| Refused::Damaged)?;
        let is_its = builder.run() == run
            && (builder.next_batch(), builder.needed_offset()) == (head.batch, head.offset);
        if !is_its || !rest.is_empty() {
            return Err(Refused::Damaged);
        }
        Ok(builder.resume(nodes, config)?)
    }
}

/// Appends the state to `head`.
fn to_bytes(state: &impl Serialize, head: Vec<u8>) -> Option<Vec<u8>> {
    postcard::serialize_with_flavor(state, Append(head)).ok()
}

/// A vector that grows by whole byte strings: payloads are copied at the speed of memory.
struct Append(Vec<u8>);

impl Flavor for Append {
    type Output = Vec<u8>;

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// The head of a checkpoint.
struct Head {
    version: u32,
    run: u64,
    digest: u64,
    batch: u64,
    offset: u64,
}

impl Head {
    fn of(bytes: &[u8]) -> Result<Head, Refused> {
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(Refused::Damaged)?;
        let is_ours = body.len() >= HEAD_BYTES
            && body[..4] == MAGIC
            && bytes.len() <= CHECKPOINT_BYTES_MAX
            && crc_fast::crc32_iscsi(body) == u32::from_le_bytes(*crc);
        if !is_ours {
            return Err(Refused::Damaged);
        }
        let number = |at: usize| {
            body[at..at + 8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        Ok(Head {
            version: (number(4) & u64::from(u32::MAX)) as u32,
            run: number(8),
            digest: number(16),
            batch: number(24),
            offset: number(32),
        })
    }
}

/// The rule by which a builder saves checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of records after which one is due, at the next committed batch.
    pub bytes: u64,
    /// It is due only after this many times its own size in records, so that it costs little.
    pub times_its_size: u64,
    /// Age of the last one, by the marks in the records, at which one is due in any case.
    pub age: Span,
}

impl Default for CheckpointPolicy {
    fn default() -> CheckpointPolicy {
        CheckpointPolicy { bytes: 512 << 20, times_its_size: 64, age: Span::from_ms(20_000) }
    }
}

/// Most times that the wait for the next checkpoint is doubled: from 20 s to 243 days.
const DOUBLED_MAX: u32 = 20;

impl CheckpointPolicy {
    /// Returns the rule after this many checkpoints that could not be saved, one after the other.
    /// Each doubles what must pass before the next one, so that builders get on with the batches.
    pub(super) fn put_off(self, failed: u32) -> CheckpointPolicy {
        let times = 1 << failed.min(DOUBLED_MAX);
        CheckpointPolicy {
            bytes: self.bytes.saturating_mul(times),
            times_its_size: self.times_its_size,
            age: Span::from_ns(self.age.as_ns().saturating_mul(times)),
        }
    }
}

/// The progress of a builder since its last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceCheckpoint {
    /// Bytes of records.
    bytes: u64,
    /// Size of the last one.
    size: u64,
    /// The mark at the last one.
    mark: Moment,
}

impl SinceCheckpoint {
    /// Begins after a checkpoint of `size` bytes at `mark`.
    pub(super) fn begin(size: usize, mark: Moment) -> SinceCheckpoint {
        SinceCheckpoint { bytes: 0, size: size as u64, mark }
    }

    /// Notes a record; returns true when a checkpoint is due behind it.
    pub(super) fn is_due(
        &mut self,
        policy: CheckpointPolicy,
        record_bytes: usize,
        mark: Moment,
        has_batch: bool,
    ) -> bool {
        self.bytes += record_bytes as u64;
        if self.mark == Moment::default() {
            self.mark = mark;
        }
        let enough = policy.bytes.max(self.size.saturating_mul(policy.times_its_size));
        (has_batch && self.bytes >= enough) || mark.since(self.mark) >= policy.age
    }
}
