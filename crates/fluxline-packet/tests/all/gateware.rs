//! Gateware of descriptions: what it drives, and what it refuses with a reason.

use std::collections::BTreeMap;

use fluxline_packet::Description;
use fluxline_packet::fpga::registers::{Access, REGISTERS, named};
use fluxline_packet::fpga::{GatewareLink, GatewareOptions, gateware};

const EXAMPLE: &str = include_str!("../../../../examples/fpga/adc-board.toml");

fn load(text: &str) -> Description {
    Description::load("board.toml", text, &BTreeMap::new())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn layout(text: &str, options: &GatewareOptions<'_>) -> Result<String, String> {
    let files = gateware(&load(text), text, options)?;
    let file = files.into_iter().find(|file| file.path == "rtl/flx_layout.sv");
    Ok(file.expect("the layout").text)
}

/// A description with these fields and further lines.
fn board(fields: &str, lines: &str) -> String {
    format!(
        "name = \"board\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"little\"\n[[packet]]\n\
         name = \"data\"\nfields = [{fields}]\n{lines}\n"
    )
}

const COUNTER: &str = "{ name = \"counter\", type = \"u32\" }";
const SEQUENCE: &str = "source = [\"address\"]\nsequence = { value = \"counter\" }";

#[test]
fn fields_are_driven_by_their_roles_and_sizes_by_the_size_rule() {
    let text = layout(EXAMPLE, &GatewareOptions::default()).expect("gateware");
    for line in [
        "= 32'hf10a0b0c;   // magic",
        "= source[15:0];   // board",
        "= 16'h200;   // samples",
        "= sequence_[31:0];   // counter",
        "= key[31:0];   // trigger",
        "= ticks[63:0];   // time",
        "= taken[31:0];   // taken",
        "= dropped[31:0];   // dropped",
        "= 16'd1084;   // length",
        "localparam int HEADER_BYTES = 74;",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn bits_gaps_and_expressions_are_where_the_description_says() {
    let fields = "{ name = \"word\", type = \"u16\", bits = [{ name = \"kind\", bits = \"15..12\", \
                  equals = 5 }, { name = \"low\", bits = \"7..0\" }] }, \
                  { name = \"counter\", type = \"u32\", at = 4 }, \
                  { name = \"twice\", type = \"u64\" }";
    let emulate = format!(
        "{SEQUENCE}\n[packet.emulate]\nfields = {{ low = 7, twice = \"(sequence << 1) + payload\" }}"
    );
    let options = GatewareOptions { payload_bytes: Some(64), ..GatewareOptions::default() };
    let text = layout(&board(fields, &emulate), &options).expect("gateware");
    for line in [
        "= {4'h5, 4'h0, 8'h7};   // word",
        "= 16'h0;   // padding",
        "= 64'((((sequence_ & 64'd4294967295) << 64'd1) + 64'd64));   // twice",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // Expressions may compare with what is always so; Verilator need not say it.
    for rule in ["UNSIGNED", "CMPCONST"] {
        let off = text.find(&format!("/* verilator lint_off {rule} */"));
        let on = text.find(&format!("/* verilator lint_on {rule} */"));
        assert!(off.is_some() && off < on, "{text}");
    }
    // Little-endian: the lowest byte of the counter goes first, so it is written last.
    assert!(text.contains("f16[31:24], f16[23:16], f16[15:8], f16[7:0]"), "{text}");
}

#[test]
fn a_counter_that_wraps_before_its_field_is_full_sends_what_the_receiver_takes() {
    let of = |field: &str| {
        let lines = "source = [\"address\"]\nsequence = { value = \"counter\" }";
        layout(&board(field, lines), &GatewareOptions::default()).expect("gateware")
    };
    for (field, signal) in [
        ("{ name = \"counter\", type = \"u16\", max = 255 }", "= {8'h0, sequence_[7:0]};"),
        (
            "{ name = \"word\", type = \"u16\", bits = [{ name = \"counter\", \
             bits = \"11..4\", max = 31 }] }",
            "= {4'h0, {3'h0, sequence_[4:0]}, 4'h0};",
        ),
        ("{ name = \"counter\", type = \"u64\" }", "= sequence_[63:0];"),
    ] {
        let text = of(field);
        assert!(text.contains(signal), "{field}\n{text}");
    }
}

#[test]
fn fields_in_any_order_lie_where_at_says() {
    let fields = "{ name = \"late\", type = \"u8\", at = 6, equals = 1 }, \
                  { name = \"counter\", type = \"u32\", at = 0 }";
    let text = layout(&board(fields, SEQUENCE), &GatewareOptions::default()).expect("gateware");
    let (counter, gap) = (text.find("// counter"), text.find("wire [15:0] f15 = 16'h0"));
    assert!(counter < gap && gap < text.find("// late") && gap.is_some(), "{text}");
}

#[test]
fn what_hardware_cannot_send_is_refused_with_the_reason() {
    let options = GatewareOptions::default();
    let with = |fields: &str, lines: &str| layout(&board(fields, lines), &options);
    let counter = |lines: &str| with(COUNTER, &format!("{SEQUENCE}\n{lines}"));
    let cases = [
        (counter("event = { key = \"counter\" }"), "two counters do not fit in one field"),
        (counter("crc = { algorithm = \"CRC-32/ISO-HDLC\", at = -4 }"), "`crc`"),
        (counter("size = { max = 100 }"), "`size` allows 0 to 100 bytes; the packet has 1028"),
        (counter("payload = { trailer = 4 }"), "`payload`"),
        (
            with(&format!("{COUNTER}, {{ name = \"lone\", type = \"u8\" }}"), SEQUENCE),
            "nothing says how hardware fills field `lone`",
        ),
        (
            with(
                &format!("{COUNTER}, {{ name = \"part\", type = \"u8\" }}"),
                &format!("{SEQUENCE}\nemulate = {{ fields = {{ part = \"sequence / 3\" }} }}"),
            ),
            "division",
        ),
        (
            with(
                &format!("{COUNTER}, {{ name = \"more\", type = \"u8\", when = \"counter & 1\" }}"),
                SEQUENCE,
            ),
            "`when`",
        ),
        (with(COUNTER, "sequence = { value = \"counter\", step = 16 }"), "steps of 1"),
        (
            with(
                &format!("{COUNTER}, {{ name = \"few\", type = \"u8\", max = 7 }}"),
                &format!("{SEQUENCE}\nemulate = {{ fields = {{ few = 8 }} }}"),
            ),
            "field `few` would be 8, which its own rule rejects",
        ),
        (
            with(
                &format!("{COUNTER}, {{ name = \"one\", type = \"u8\", equals = 1 }}"),
                &format!("{SEQUENCE}\nemulate = {{ fields = {{ one = 2 }} }}"),
            ),
            "field `one` would be 2, which its own rule rejects",
        ),
        (
            with(
                &format!("{COUNTER}, {{ name = \"kind\", type = \"u8\" }}"),
                &format!(
                    "select = \"kind > 3\"\n{SEQUENCE}\nemulate = {{ fields = {{ kind = 3 }} }}"
                ),
            ),
            "`select` is 0 by its constants",
        ),
    ];
    for (result, reason) in cases {
        let message = result.expect_err(reason);
        assert!(message.contains(reason) && message.contains("packet `data`"), "{message}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_one_that_does() {
    let of = |payload_bytes, mtu, fifo_bytes| {
        let payload_bytes = Some(payload_bytes);
        let options = GatewareOptions { payload_bytes, mtu, fifo_bytes, ..Default::default() };
        layout(EXAMPLE, &options)
    };
    for (result, reason) in [
        (of(1024, 1000, 16_384), "--payload-bytes 936 or less"),
        (of(1022, 1500, 16_384), "--payload-bytes 1016"),
        (of(0, 1500, 16_384), "not whole words"),
        (of(1024, 1500, 512), "larger than the FIFO of 512 bytes"),
        (of(1024, 1500, 3000), "power of two"),
        (of(u64::MAX - 7, 1500, 1024), "larger than any IP packet"),
        (of(16, 1500, 1 << 20), "more blocks of 16 bytes than the 65533"),
    ] {
        let message = result.expect_err(reason);
        assert!(message.contains(reason), "{message}");
    }
    assert!(of(1440, 1500, 2048).is_ok() && of(8936, 9000, 16_384).is_ok());
    let options = GatewareOptions { packet: Some("none"), ..GatewareOptions::default() };
    assert!(layout(EXAMPLE, &options).expect_err("no such type").contains("it has data"));
}

#[test]
fn a_remote_write_has_its_headers_before_the_packet_and_its_sizes_around_it() {
    let roce = |payload, mtu| {
        let options = GatewareOptions {
            link: GatewareLink::Roce,
            payload_bytes: Some(payload),
            mtu,
            ..GatewareOptions::default()
        };
        layout(EXAMPLE, &options)
    };
    let text = roce(992, 1500).expect("gateware");
    for line in [
        "localparam bit ROCE = 1;",
        "localparam int HEADER_BYTES = 106;",
        "localparam int SLOT_BYTES = 1024;",
        "= 8'h2b;",
        "= 32'd1024;   // bytes to write",
        // IP, UDP, headers, packet, ICRC.
        "= 16'd1088;   // length",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let (destination, magic) = (text.find("= dest_qp;"), text.find("// magic"));
    assert!(destination.is_some() && destination < magic, "{text}");
    let longer = roce(1000, 1500).expect("gateware");
    assert!(longer.contains("SLOT_BYTES = 2048;"), "{longer}");
    assert!(roce(4064, 9000).is_ok());
    for (result, reason) in [
        (roce(4072, 9000), "--payload-bytes 4064 or less"),
        (roce(1440, 1500), "--payload-bytes 1400 or less"),
    ] {
        let message = result.expect_err(reason);
        assert!(message.contains(reason), "{message}");
    }
    let options = GatewareOptions { link: GatewareLink::Roce, ..GatewareOptions::default() };
    let files = gateware(&load(EXAMPLE), EXAMPLE, &options).expect("gateware");
    let receiver = files.iter().find(|file| file.path == "roce.toml").expect("a receiver");
    assert!(receiver.text.contains("path-mtu = 2048"), "{}", receiver.text);
    // Three bytes more: one of padding.
    let fields = "{ name = \"counter\", type = \"u24\" }";
    let text = layout(&board(fields, SEQUENCE), &options).expect("gateware");
    assert!(text.contains("PAD_BYTES = 1;") && text.contains("= 8'h10;"), "{text}");
}

#[test]
fn no_register_shares_its_address_and_the_settings_alone_are_written() {
    assert!(REGISTERS.is_sorted_by(|a, b| a.address < b.address));
    assert!(REGISTERS.iter().all(|register| register.address % 4 == 0));
    assert_eq!(named("peer_ip").map(|register| register.access), Some(Access::ReadWrite));
    assert_eq!(named("taken_low").map(|register| register.access), Some(Access::Read));
    let written = REGISTERS.iter().filter(|register| register.access == Access::ReadWrite);
    assert_eq!(written.count(), 17);
}

#[test]
fn counts_that_would_hide_losses_are_refused() {
    let fields = "{ name = \"counter\", type = \"u32\" }, { name = \"taken\", type = \"u32\" }, \
                  { name = \"few\", type = \"u8\" }";
    let counts = "counts = { taken = \"taken\", dropped = \"few\" }";
    let error = |lines: &str| {
        let text = board(fields, lines);
        let loaded = Description::load("board.toml", &text, &BTreeMap::new());
        loaded.expect_err(lines).to_string()
    };
    assert!(error(&format!("{SEQUENCE}\n{counts}")).contains("`counts.dropped` has 8 bits"));
    assert!(error(counts).contains("`counts` needs a `sequence`"));
    let sum = "counts = { taken = \"taken\", dropped = \"few + 1\" }";
    assert!(error(&format!("{SEQUENCE}\n{sum}")).contains("must be a field"));
}
