//! Packed samples and lists in records against decoders that read bit by bit and byte by byte, and
//! times whose start a field names.

use std::collections::BTreeMap;

use fluxline_core::random::{test_count, test_seed};
use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::columnar::{ColumnValues, Columns, Content, Numbers, Wanted};
use fluxline_packet::{Description, shipped};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn load(text: &str) -> Result<Description, String> {
    Description::load("test.toml", text, &BTreeMap::new()).map_err(|error| error.to_string())
}

fn description(fields: &str, bytes: usize) -> Result<Description, String> {
    load(&format!(
        "name = \"packed\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"data\"\n[packet.records]\nname = \"block\"\nbytes = {bytes}\n\
         fields = [\n{fields}\n]\n"
    ))
}

/// One field of packed samples.
#[derive(Debug)]
struct Samples {
    bits: usize,
    signed: bool,
    lowest_first: bool,
    /// Bytes of a record before the samples, of the samples, and behind them.
    layout: [usize; 3],
}

impl Samples {
    fn random(random: &mut Xoshiro256PlusPlus) -> Samples {
        let signed = random.next_u32().is_multiple_of(2);
        let bits =
            1 + usize::from(signed) + random.next_u32() as usize % (32 - usize::from(signed));
        let layout = [0, 1, 0].map(|least| least + random.next_u32() as usize % 40);
        Samples { bits, signed, lowest_first: random.next_u32().is_multiple_of(2), layout }
    }

    fn text(&self) -> String {
        let order = if self.lowest_first { "lsb-first" } else { "msb-first" };
        let letter = if self.signed { 'i' } else { 'u' };
        let [before, bytes, _] = self.layout;
        format!(
            "{{ name = \"s\", type = \"{letter}{}\", at = {before}, length = {bytes}, \
             bit-order = \"{order}\" }}",
            self.bits
        )
    }

    /// Reads the samples of a record bit by bit.
    fn of(&self, record: &[u8]) -> Vec<i64> {
        let bytes = &record[self.layout[0]..self.layout[0] + self.layout[1]];
        let bit = |at: usize| {
            let place = if self.lowest_first { at % 8 } else { 7 - at % 8 };
            i64::from(bytes[at / 8] >> place & 1)
        };
        let sample = |number: usize| {
            let mut value = 0;
            for step in 0..self.bits {
                let place = if self.lowest_first { step } else { self.bits - 1 - step };
                value += bit(number * self.bits + step) << place;
            }
            if self.signed && value >> (self.bits - 1) == 1 {
                value - (1 << self.bits)
            } else {
                value
            }
        };
        (0..bytes.len() * 8 / self.bits).map(sample).collect()
    }
}

fn numbers(column: &ColumnValues) -> Vec<i64> {
    let numbers = match &column.content {
        Content::Samples(arrays) => &arrays.samples,
        Content::Numbers(numbers) => numbers,
        Content::Bytes(_) => panic!("bytes"),
    };
    match numbers {
        Numbers::U8(values) => values.iter().map(|value| i64::from(*value)).collect(),
        Numbers::U16(values) => values.iter().map(|value| i64::from(*value)).collect(),
        Numbers::U32(values) => values.iter().map(|value| i64::from(*value)).collect(),
        Numbers::I8(values) => values.iter().map(|value| i64::from(*value)).collect(),
        Numbers::I16(values) => values.iter().map(|value| i64::from(*value)).collect(),
        Numbers::I32(values) => values.iter().map(|value| i64::from(*value)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn samples_are_the_bits_of_the_payload() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(test_seed!(12));
    for _ in 0..test_count!(600) {
        let samples = Samples::random(&mut random);
        let bytes: usize = samples.layout.iter().sum();
        let made = description(&samples.text(), bytes).unwrap_or_else(|error| panic!("{error}"));
        let packet = &made.packet_types()[0];
        let layout = &packet.records.as_ref().expect("records").layout;
        let mut payload = vec![0; bytes * (random.next_u32() as usize % 5) + bytes / 2];
        random.fill_bytes(&mut payload);
        let mut columns = Columns::new(layout, &Wanted::all(layout));
        packet.append_records(&payload, &mut columns);
        let expected: Vec<i64> =
            payload.chunks_exact(bytes).flat_map(|record| samples.of(record)).collect();
        let found = numbers(columns.values[0].as_ref().expect("a wanted column"));
        assert_eq!(found, expected, "{samples:?}");
    }
}

#[test]
fn lists_in_records_have_their_own_length_in_each_record() {
    let fields = "{ name = \"count\", type = \"u8\" },\n\
         { name = \"hit\", list = { count = \"count\", fields = [\n\
         { name = \"time\", type = \"u16\" }, { name = \"charge\", type = \"i8\" } ] } },\n\
         { name = \"end\", type = \"u8\" }";
    let text = description(fields, 0).unwrap_err();
    assert!(text.contains("a record of 0 bytes never ends"), "{text}");
    let made = load(&format!(
        "name = \"lists\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"data\"\n[packet.records]\nname = \"block\"\nbytes = \"2 + 3 * count\"\n\
         fields = [\n{fields}\n]\n"
    ));
    let made = made.unwrap_or_else(|error| panic!("{error}"));
    let packet = &made.packet_types()[0];
    let layout = &packet.records.as_ref().expect("records").layout;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(test_seed!(13));
    let (mut payload, mut times, mut ends, mut total) = (Vec::new(), vec![], vec![], 0);
    for record in 0..200u8 {
        let count = random.next_u32() as usize % 9;
        payload.push(count as u8);
        for _ in 0..count {
            let time = random.next_u32() as u16;
            payload.extend(time.to_be_bytes());
            payload.push(random.next_u32() as u8);
            times.push(i64::from(time));
        }
        payload.push(record);
        total += count;
        ends.push(total);
    }
    let mut columns = Columns::new(layout, &Wanted::all(layout));
    assert_eq!(packet.append_records(&payload, &mut columns), 0);
    assert_eq!(columns.lists[0].ends, ends);
    assert_eq!(numbers(columns.lists[0].entries.values[0].as_ref().expect("wanted")), times);
    let end = numbers(columns.values[1].as_ref().expect("wanted"));
    assert_eq!(end, (0..200).collect::<Vec<i64>>());
    // A payload that was cut ends the records, and nothing panics.
    for bytes in 0..payload.len().min(400) {
        let mut columns = Columns::new(layout, &Wanted::all(layout));
        packet.append_records(&payload[..bytes], &mut columns);
    }
}

#[test]
fn times_start_at_the_date_that_a_field_names() {
    let made = load(shipped::shipped("vdif").expect("a shipped format")).expect("it loads");
    let mut packet = vec![0; 8 + 32 + 64];
    let word = |packet: &mut Vec<u8>, number: usize, value: u32| {
        packet[8 + number * 4..][..4].copy_from_slice(&value.to_le_bytes());
    };
    word(&mut packet, 0, 1000);
    word(&mut packet, 2, 12);
    word(&mut packet, 3, 1 << 26);
    for (half_year, start_s) in [(0, 946_684_800), (1, 962_409_600), (53, 1_782_864_000)] {
        word(&mut packet, 1, half_year << 24 | 12_800);
        let (sender, time) = (SenderAddress::NONE, Moment::from_ns(1));
        let datagram = Datagram { bytes: &packet, sender, port: 0, time };
        let parsed = made.program().parse(&datagram).expect("a right packet");
        assert_eq!(parsed.sensor_time_ns, Some((start_s + 1000) * 1_000_000_000 + 500_000_000));
    }
}

#[test]
fn wrong_samples_and_epochs_are_explained() {
    let says = |result: Result<Description, String>, words: &str| {
        let text = result.map(|_| ()).expect_err(words);
        assert!(text.contains(words), "{text}\n{words}");
    };
    let field = |keys: &str| description(&format!("{{ name = \"s\", {keys} }}"), 4);
    says(field("type = \"u12\""), "for packed samples add `bit-order = \"msb-first\"`");
    says(field("type = \"u12\", bit-order = \"msb-first\""), "packed samples need `length`");
    says(field("type = \"u40\", length = 4, bit-order = \"msb-first\""), "from u1 to u32");
    says(field("type = \"i1\", length = 4, bit-order = \"msb-first\""), "i2 to i32");
    says(field("type = \"f32\", length = 4, bit-order = \"msb-first\""), "correct `type`");
    says(field("type = \"u12\", length = 4, bit-order = \"first\""), "\"first\" is not known");
    says(field("type = \"u0\""), "\"u0\" is not known");
    let epoch = |epoch: &str| {
        load(&format!(
            "name = \"e\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
             name = \"data\"\nfields = [{{ name = \"s\", type = \"u32\" }}]\n\
             timestamp = {{ seconds = \"s\", epoch = {epoch} }}\n"
        ))
    };
    says(epoch("{ date = \"2000-02-30\", days = \"s\" }"), "`2000-02-30` is not a date");
    says(epoch("{ date = \"2000-01-01\" }"), "needs `months` or `days`");
    says(epoch("{ date = \"2000-01-01\", month = \"s\" }"), "month");
    says(epoch("{ date = \"2000-01-01\", days = \"t\" }"), "no field, computed value");
    says(epoch("\"unixx\""), "\"unixx\" is not known");
}
