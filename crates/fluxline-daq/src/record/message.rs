//! Arrow IPC messages: the flatbuffer before each body, and its two check sums.
//!
//! Arrow's own writer copies every buffer into the message and cannot put metadata on one batch.
//! Here only the metadata is built, and the body is written from its place in memory. A batch
//! carries the CRC-32C of its body; the metadata has one too, since a flipped bit in a length would
//! otherwise lead a reader astray. Source: Arrow Columnar Format, "Encapsulated message format";
//! Message.fbs, Schema.fbs.

use std::fmt;
use std::ops::Range;

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{
    KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch,
    RecordBatchArgs,
};
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VerifierOptions, WIPOffset};

use super::columns::Columns;
use super::schema::{KEY_BATCH, KEY_CRC, KEY_METADATA_CRC};

/// The first bytes of every message; four bytes of length follow.
pub(super) const CONTINUATION: [u8; 4] = [0xFF; 4];
/// Bytes before the flatbuffer.
pub(super) const PREFIX_BYTES: usize = 8;
/// The last bytes of a stream: a message without length.
pub(super) const END_OF_STREAM: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

const NO_CRC: &str = "00000000";

/// Limits for flatbuffers of strangers. Parts may share parts, so a few kilobytes can unfold to
/// gigabytes. Ours share little: the limits are four times the longest metadata, and the number of
/// tables that fit into it.
pub(super) const VERIFIED: VerifierOptions = VerifierOptions {
    max_depth: 64,
    max_tables: 1 << 12,
    max_apparent_size: 1 << 18,
    ignore_missing_null_terminator: false,
};

/// Writes the heads of messages; reused.
#[derive(Default)]
pub(super) struct MessageEncoder {
    builder: FlatBufferBuilder<'static>,
    head: Vec<u8>,
}

impl fmt::Debug for MessageEncoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MessageEncoder").field("head", &self.head.len()).finish_non_exhaustive()
    }
}

impl MessageEncoder {
    /// Returns the message that begins a file.
    pub fn schema(&mut self, schema: &Schema) -> &[u8] {
        self.builder.reset();
        let header = IpcSchemaEncoder::new().schema_to_fb_offset(&mut self.builder, schema);
        self.finish(MessageHeader::Schema, header.as_union_value(), 0, &[])
    }

    /// Returns the bytes before the body of a batch.
    pub fn batch(&mut self, columns: &Columns, rows: usize, number: u64, crc: u32) -> &[u8] {
        self.builder.reset();
        let nodes = Some(self.builder.create_vector(&columns.nodes));
        let buffers = Some(self.builder.create_vector(&columns.buffers));
        let arguments =
            RecordBatchArgs { length: rows as i64, nodes, buffers, ..Default::default() };
        let header = RecordBatch::create(&mut self.builder, &arguments).as_union_value();
        let pairs = [(KEY_BATCH, number.to_string()), (KEY_CRC, format!("{crc:08x}"))];
        self.finish(MessageHeader::RecordBatch, header, columns.body_bytes as i64, &pairs)
    }

    /// Returns the head that was built last.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    fn finish(
        &mut self,
        header_type: MessageHeader,
        header: WIPOffset<UnionWIPOffset>,
        body_bytes: i64,
        pairs: &[(&str, String)],
    ) -> &[u8] {
        let builder = &mut self.builder;
        let sum = (KEY_METADATA_CRC, NO_CRC);
        let pairs = pairs.iter().map(|(key, value)| (*key, value.as_str())).chain([sum]);
        let pairs: Vec<_> = pairs
            .map(|(key, value)| {
                let key = Some(builder.create_string(key));
                let value = Some(builder.create_string(value));
                KeyValue::create(builder, &KeyValueArgs { key, value })
            })
            .collect();
        let custom_metadata = Some(builder.create_vector(&pairs));
        let arguments = MessageArgs {
            version: MetadataVersion::V5,
            header_type,
            header: Some(header),
            bodyLength: body_bytes,
            custom_metadata,
        };
        let message = Message::create(builder, &arguments);
        builder.finish(message, None);
        frame(builder.finished_data(), &mut self.head);
        &self.head
    }
}

/// Puts continuation, length and padding around a flatbuffer, and its check sum into it.
fn frame(flatbuffer: &[u8], head: &mut Vec<u8>) {
    let padded = flatbuffer.len().next_multiple_of(PREFIX_BYTES);
    head.clear();
    head.extend_from_slice(&CONTINUATION);
    head.extend_from_slice(&(padded as u32).to_le_bytes());
    head.extend_from_slice(flatbuffer);
    head.resize(PREFIX_BYTES + padded, 0);
    let metadata = &mut head[PREFIX_BYTES..];
    // The place exists: `finish` has just written it.
    if let Some(place) = crc_place(metadata, KEY_METADATA_CRC) {
        let crc = crc_fast::crc32_iscsi(metadata);
        metadata[place].copy_from_slice(format!("{crc:08x}").as_bytes());
    }
}

/// Returns the message in `metadata` (flatbuffer and padding), if it is one and its check sum is
/// right.
///
/// Sets the digits of the check sum to zero; the rest is left unchanged.
pub(super) fn verified_message(metadata: &mut [u8]) -> Option<Message<'_>> {
    let place = crc_place(metadata, KEY_METADATA_CRC)?;
    let stated = metadata[place.clone()].to_vec();
    metadata[place].copy_from_slice(NO_CRC.as_bytes());
    // Compared as text: parsing would take 'A' for 'a', and so miss a flipped bit.
    let holds = format!("{:08x}", crc_fast::crc32_iscsi(metadata)).as_bytes() == stated;
    // Under fuzzing, wrong check sums are accepted: otherwise a fuzzer would not get past them.
    if !holds && !cfg!(fuzzing) {
        return None;
    }
    arrow_ipc::root_as_message_with_opts(&VERIFIED, metadata).ok()
}

/// Returns the value of a key in a message's metadata.
pub(super) fn metadata_value<'a>(message: &Message<'a>, key: &str) -> Option<&'a str> {
    let pairs = message.custom_metadata()?;
    pairs.iter().find(|pair| pair.key() == Some(key))?.value()
}

/// Returns the place of the eight digits of a check sum.
fn crc_place(metadata: &[u8], key: &str) -> Option<Range<usize>> {
    let message = arrow_ipc::root_as_message_with_opts(&VERIFIED, metadata).ok()?;
    let value = metadata_value(&message, key)?;
    // The value is a part of `metadata`, so the difference of their places is its index.
    let start = (value.as_ptr() as usize).checked_sub(metadata.as_ptr() as usize)?;
    let place = start..start.checked_add(NO_CRC.len())?;
    (value.len() == NO_CRC.len() && place.end <= metadata.len()).then_some(place)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_ipc::{
        Bool, BoolArgs, Endianness, Field, FieldArgs, Schema, SchemaArgs, Struct_, Struct_Args,
        Type,
    };

    use super::*;

    /// A schema of a few kilobytes in which each field has the one below it twice as a child.
    fn doubling_schema(levels: usize, name: &str) -> Vec<u8> {
        let mut encoder = MessageEncoder::default();
        let builder = &mut encoder.builder;
        let name = Some(builder.create_string(name));
        let kind = Some(Bool::create(builder, &BoolArgs {}).as_union_value());
        let of_bits =
            FieldArgs { name, type_type: Type::Bool, type_: kind, ..FieldArgs::default() };
        let mut field = Field::create(builder, &of_bits);
        for _ in 0..levels {
            let children = Some(builder.create_vector(&[field, field]));
            let kind = Some(Struct_::create(builder, &Struct_Args {}).as_union_value());
            let type_type = Type::Struct_;
            let twice =
                FieldArgs { name, type_type, type_: kind, children, ..FieldArgs::default() };
            field = Field::create(builder, &twice);
        }
        let fields = Some(builder.create_vector(&[field]));
        let endianness = Endianness::Little;
        let schema = SchemaArgs { endianness, fields, ..SchemaArgs::default() };
        let schema = Schema::create(builder, &schema).as_union_value();
        encoder.finish(MessageHeader::Schema, schema, 0, &[]).to_vec()
    }

    #[test]
    fn fields_that_share_their_children_do_not_fill_the_memory() {
        // 2^18 fields of 4 kB names each when unfolded: a gigabyte out of 7 kB.
        let mut bomb = doubling_schema(17, &"x".repeat(4000));
        assert!(bomb.len() < 8000);
        assert!(verified_message(&mut bomb[PREFIX_BYTES..]).is_none());
        let mut plain = doubling_schema(2, "x");
        assert!(verified_message(&mut plain[PREFIX_BYTES..]).is_some());
    }

    #[test]
    fn longest_honest_metadata_is_believed() {
        let pairs = (0..1200).map(|at| (format!("source {at}"), "name".repeat(4)));
        let fields = crate::record::schema::event_fields();
        let pairs: HashMap<String, String> = pairs.collect();
        let schema = arrow_schema::Schema::new_with_metadata(fields, pairs);
        let mut head = MessageEncoder::default().schema(&schema).to_vec();
        assert!(head.len() > 60_000, "{} bytes", head.len());
        assert!(verified_message(&mut head[PREFIX_BYTES..]).is_some());
    }
}

#[cfg(test)]
pub(super) mod forge {
    //! Corrects the check sums of a spoilt message, as an attacker would.

    use super::*;

    /// Seals the message that starts `file[start..]`, its body included.
    pub fn reseal(file: &mut [u8], start: usize, metadata_bytes: usize, body_bytes: usize) {
        let (head, body) = file[start + PREFIX_BYTES..].split_at_mut(metadata_bytes);
        let crc = crc_fast::crc32_iscsi(&body[..body_bytes]);
        patch(head, KEY_CRC, crc);
        patch(head, KEY_METADATA_CRC, 0);
        let crc = crc_fast::crc32_iscsi(head);
        patch(head, KEY_METADATA_CRC, crc);
    }

    fn patch(head: &mut [u8], key: &str, crc: u32) {
        if let Some(place) = crc_place(head, key) {
            head[place].copy_from_slice(format!("{crc:08x}").as_bytes());
        }
    }
}
