//! Checkpoints: the whole state of a partition's builder between two records, as bytes.
//!
//! A builder that takes over goes on from the newest checkpoint instead of the run's beginning. The
//! bytes are a head, the state, and a CRC-32C. Serde's derives write the state, so a new field is
//! in it by itself. The bytes may come from anybody: reading is bounded, and refuses a state that
//! no builder had.

use std::sync::Arc;

use fluxline_daq::builder::BuilderConfig;
use postcard::ser_flavors::Flavor;
use serde::Serialize;

use crate::{PartitionBuilder, Unresumed};

/// The first bytes of a checkpoint.
const MAGIC: [u8; 4] = *b"FXLC";
/// Magic, version, run, digest, batch, offset and mark.
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 8 + 8 + 8;
const CRC_BYTES: usize = 4;
/// The longest checkpoint \[byte\]; a state beyond it is not saved.
pub const CHECKPOINT_BYTES_MAX: usize = 2 << 30;

/// Version of the state's layout. Raise it when a saved type changes.
pub const VERSION: u32 = 4;

/// The reason why a builder does not go on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is cut or changed, or no checkpoint.
    #[error("it is damaged")]
    Damaged,
    /// Another version of the program wrote it.
    #[error("it has layout {0}, and this program reads layout {VERSION}")]
    Version(u32),
    /// It belongs to another run.
    #[error("it belongs to run {0}")]
    Run(u64),
    /// It was saved before the beginning of the run.
    #[error("an earlier run with the same number wrote it")]
    Earlier,
    /// The experiment is another one, or the state contradicts itself.
    #[error(transparent)]
    State(#[from] Unresumed),
}

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
