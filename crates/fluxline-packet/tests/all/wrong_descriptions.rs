//! Every way to write a wrong description: the message names the line, the field, what is wrong
//! and what to write.

use std::collections::BTreeMap;

use fluxline_packet::Description;

const HEAD: &str = "name = \"test\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n";

fn refusal(text: &str, parameters: &[(&str, u64)]) -> String {
    let parameters: BTreeMap<String, u64> =
        parameters.iter().map(|&(name, value)| (name.to_string(), value)).collect();
    match Description::load("test.toml", text, &parameters) {
        Ok(_) => panic!("this loads: {text}"),
        Err(error) => error.to_string(),
    }
}

/// The message for one packet type; line 5 is `[\[packet\]]`, line 6 its name, `body` starts at 7.
fn of_packet(body: &str) -> String {
    refusal(&format!("{HEAD}[[packet]]\nname = \"data\"\n{body}\n"), &[])
}

/// The message for one field list at line 7.
fn of_fields(fields: &str) -> String {
    of_packet(&format!("fields = [{fields}]"))
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    assert!(!message.contains('\n'), "one line: {message}");
}

#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    let message = of_packet("sequnce = { value = \"x\" }");
    assert_says(
        &message,
        &["test.toml:7:1: ", "`sequnce` is not a key here", "did you mean `sequence`"],
    );
    let message = of_fields("{ type = \"u8\", name = \"a\", equal = 1 }");
    assert_says(&message, &["test.toml:7:", "did you mean `equals`?"]);
    let message = refusal(&HEAD.replace("byte-order", "byte_order"), &[]);
    assert_says(&message, &["test.toml:4:1", "did you mean `byte-order`?"]);
}

#[test]
fn wrong_toml_and_wrong_types_say_where() {
    assert_says(&refusal("name = \"x", &[]), &["test.toml:1:"]);
    assert_says(
        &of_fields("{ type = \"u9\", name = \"a\" }"),
        &["test.toml:7:", "field `a`: `u9` is not one of", "u16", "`bit-order = \"msb-first\"`"],
    );
    let message = of_packet("select = true");
    assert_says(&message, &["test.toml:7:10", "an integer from 0 or an expression as text"]);
    let message =
        of_fields("{ type = \"u8\", name = \"a\", bits = [{ name = \"b\", bits = -1 }] }");
    assert_says(&message, &["test.toml:7:", "-1", "high..low"]);
    assert_says(&refusal(HEAD, &[]), &["`packet` is missing"]);
    assert_says(&refusal(&format!("{HEAD}packet = []"), &[]), &["add a `[[packet]]`"]);
}

#[test]
fn names_are_checked() {
    let message = refusal(&HEAD.replace("test", "Test 1"), &[]);
    assert_says(&message, &["`packet` is missing"]);
    let packet = "[[packet]]\nname = \"p\"\n";
    let message = refusal(&format!("{}{packet}", HEAD.replace("test", "Test 1")), &[]);
    assert_says(&message, &["test.toml:1:8", "lower-case letters, digits and hyphens"]);
    let message = of_fields("{ type = \"u8\", name = \"1st\" }");
    assert_says(&message, &["test.toml:7:", "`1st` is not a name", "a letter, then"]);
    let message = of_fields("{ type = \"u8\", name = \"size\" }");
    assert_says(&message, &["`size` has a meaning of its own", "`size_field`"]);
    let message = of_fields("{ type = \"u8\", name = \"a\" }, { type = \"u8\", name = \"a\" }");
    assert_says(&message, &["packet `data`", "two fields `a`; rename"]);
    let message = refusal(&format!("{HEAD}{packet}select = 1\n{packet}"), &[]);
    assert_says(&message, &["test.toml:9:8", "two packet types `p`"]);
}

#[test]
fn an_unknown_name_in_an_expression_names_the_nearest() {
    let fields = "fields = [{ type = \"u8\", name = \"counter\" }]\n";
    let message = of_packet(&format!("{fields}sequence = {{ value = \"conter + 1\", bits = 8 }}"));
    assert_says(
        &message,
        &[
            "test.toml:8:22",
            "`sequence.value`",
            "no field, computed value or parameter is called `conter`",
        ],
    );
    assert_says(&message, &["did you mean `counter`?"]);
    let message = of_packet(&format!("{fields}source = [\"countr\"]"));
    assert_says(&message, &["test.toml:8:11", "`source`", "did you mean `counter`?"]);
}

#[test]
fn wrong_expressions_say_what_may_stand_there() {
    let field =
        |value: &str| of_packet(&format!("computed = [{{ name = \"c\", value = \"{value}\" }}]"));
    assert_says(&field("1 +"), &["field `c`", "the end is where a number, a name or `(`"]);
    assert_says(&field("(1"), &["the end is where `)` is expected"]);
    assert_says(&field("1 2"), &["`2` is after the end"]);
    assert_says(&field("-1"), &["negative numbers do not exist here"]);
    assert_says(&field("log(2)"), &["`log` is not a function; the functions are min(a, b)"]);
    assert_says(&field("min(2)"), &["`min` takes two operands"]);
    assert_says(&field("1 ? 2"), &["the character `?` means nothing"]);
    assert_says(&field("0xg"), &["`0xg` is not a number"]);
    assert_says(
        &field("99999999999999999999"),
        &["is not a number from 0 to 18446744073709551615"],
    );
    assert_says(&field(&"(".repeat(5000)), &["nested more than 100 deep"]);
    assert_says(&field(&format!("1{}", "+1".repeat(5000))), &["nested more than 100 deep"]);
    assert_says(&field(&"!".repeat(5000)), &["nested more than 100 deep"]);
    assert_says(&field(&format!("1{}", " ".repeat(70_000))), &["65536 are allowed"]);
}

#[test]
fn an_expression_that_can_leave_64_bits_is_refused_by_its_part() {
    let fields = "fields = [{ type = \"u64\", name = \"a\" }, { type = \"u8\", name = \"b\" }]\n";
    let field = |value: &str| {
        of_packet(&format!("{fields}computed = [{{ name = \"c\", value = \"{value}\" }}]"))
    };
    let message = field("(a + b) & 1");
    assert_says(
        &message,
        &["test.toml:8:", "field `c`", "`a + b` can be as large as 18446744073709551870"],
    );
    assert_says(&message, &["mask an operand, like `(a & 0xffffffff)`"]);
    assert_says(&field("a * 2"), &["`a * 2` can be as large as"]);
    assert_says(&field("a << 1"), &["`a << 1` can be as large as"]);
    assert_says(&field("b - 1"), &["`b - 1` can be as low as -1", "`max(b, 1) - 1`", "a `min`"]);
    assert_says(&field("1 / b"), &["can divide by zero", "`max(b, 1)`", "`min = 1`"]);
    assert_says(&field("1 % (b & 3)"), &["can divide by zero"]);
    assert_says(&field("1 << b"), &["can shift by more than 63", "`(b & 63)`"]);
    assert_says(&field("b >> 64"), &["can shift by more than 63"]);
    assert_says(&field("size - 10"), &["`size - 10` can be as low as -1 (`size` is 9..=65535"]);
}

#[test]
fn what_the_message_advises_is_accepted() {
    let load = |fields: &str, value: &str| {
        let text = format!(
            "{HEAD}[[packet]]\nname = \"d\"\nfields = [{fields}]\ncomputed = [{{ name = \"c\", \
            value = \
             \"{value}\" }}]\n"
        );
        Description::load("test.toml", &text, &BTreeMap::new()).expect("advice that works");
    };
    let byte = "{ type = \"u8\", name = \"b\" }";
    load(byte, "max(b, 1) - 1");
    load(byte, "1 / max(b, 1)");
    load(byte, "1 << (b & 63)");
    load("{ type = \"u64\", name = \"a\" }", "(a & 0xffffffff) * 2");
    load("{ type = \"u8\", name = \"b\", min = 1 }", "b - 1");
    load("{ type = \"u8\", name = \"b\", min = 1 }", "100 / b");
    load("{ type = \"u8\", name = \"b\", equals = 3 }", "1 / (b - 2)");
    load("{ type = \"u8\", name = \"b\", one-of = [4, 8] }", "1 / (b - 3)");
    load("{ type = \"u64\", name = \"a\" }, { type = \"u64\", name = \"b\" }", "size - 16");
}

#[test]
fn an_absent_field_can_be_zero_whatever_its_rules_say() {
    let message = of_packet(
        "fields = [{ type = \"u8\", name = \"f\" }, { type = \"u8\", name = \"b\", min = 1, when \
        = \"f\" \
         }]\ncomputed = [{ name = \"c\", value = \"1 / b\" }]",
    );
    assert_says(&message, &["can divide by zero: `b` is 0..=255"]);
}

#[test]
fn fields_that_contradict_themselves_are_refused() {
    let one = |field: &str| of_fields(&format!("{{ {field} }}"));
    assert_says(&one("name = \"a\""), &["field `a`: `type` is missing; write one of u8"]);
    assert_says(
        &one("type = \"bytes\", name = \"a\""),
        &["`length` and `type = \"bytes\"` go together"],
    );
    assert_says(&one("type = \"u8\", name = \"a\", length = 4"), &["go together"]);
    assert_says(&one("type = \"bytes\", name = \"a\", length = 0"), &["`length` is 0"]);
    assert_says(&one("type = \"bytes\", name = \"a\", length = 70000"), &["beyond byte 65535"]);
    assert_says(&one("type = \"u8\", name = \"a\", at = 65535"), &["beyond byte 65535"]);
    assert_says(
        &one("type = \"u32\", name = \"a\", at = -3"),
        &["beyond the packet", "-4 or less"],
    );
    assert_says(&one("type = \"u8\", equals = 3"), &["padding field", "that have a name"]);
    assert_says(&one("type = \"f32\", name = \"a\", max = 3"), &["for unsigned integers"]);
    assert_says(
        &one("type = \"u8\", name = \"a\", equals = 256"),
        &["`a` names 256", "8 bits hold at most 255"],
    );
    assert_says(
        &one("type = \"u8\", name = \"a\", min = 9, max = 3"),
        &["no value of `a` can satisfy"],
    );
    assert_says(&one("type = \"u8\", name = \"a\", one-of = []"), &["`one-of` is empty"]);
    let overlap =
        of_fields("{ type = \"u32\", name = \"a\" }, { type = \"u8\", name = \"b\", at = 3 }");
    assert_says(&overlap, &["field `b`: it takes bytes 3..4, and `a` has 0..4"]);
    let message = of_fields(
        "{ type = \"f32\", name = \"a\" }, { type = \"u8\", name = \"b\", when = \"a\" }",
    );
    assert_says(&message, &["`a` is a float, and expressions are over unsigned integers"]);
    let message =
        of_fields("{ type = \"u8\", name = \"a\", when = \"b\" }, { type = \"u8\", name = \"b\" }");
    assert_says(&message, &["`when`: `b` is read only after this; move its field before"]);
}

#[test]
fn wrong_bit_ranges_are_refused() {
    let bits =
        |text: &str| of_fields(&format!("{{ type = \"u16\", name = \"w\", bits = [{text}] }}"));
    let one = |range: &str| bits(&format!("{{ name = \"b\", bits = {range} }}"));
    assert_says(
        &one("\"16..9\""),
        &["field `b`: bit 16 lies outside its word, whose bits are 15..0"],
    );
    assert_says(&one("16"), &["bit 16 lies outside"]);
    assert_says(&one("\"3..9\""), &["write the higher bit first: bits = \"9..3\""]);
    assert_says(&one("\"a..b\""), &["is not \"high..low\""]);
    let message = bits("{ name = \"b\", bits = \"7..4\" }, { name = \"c\", bits = \"4..0\" }");
    assert_says(&message, &["field `c`: its bits overlap those of `b`, 7..4"]);
    let message =
        of_fields("{ type = \"f32\", name = \"w\", bits = [{ name = \"b\", bits = 1 }] }");
    assert_says(&message, &["only unsigned integers have `bits`"]);
}

#[test]
fn lists_and_records_are_checked() {
    let list = |list: &str| of_fields(&format!("{{ name = \"l\", list = {{ {list} }} }}"));
    assert_says(&list("count = 2, fields = []"), &["a list item has no fields"]);
    assert_says(&list("count = 0, fields = [{ type = \"u8\" }]"), &["`list.count` is 0"]);
    assert_says(
        &list("count = 2, fields = [{ type = \"u8\", name = \"k\", when = \"1\" }]"),
        &["fields of a list item follow one another"],
    );
    assert_says(
        &list(
            "count = 2, fields = [{ type = \"u8\", name = \"key\" }], pick = { key = \"kye\", \
            value = \"key\", values = [] }",
        ),
        &["`pick`", "did you mean `key`?"],
    );
    assert_says(
        &list(
            "count = 2, fields = [{ type = \"u8\", name = \"k\" }], pick = { key = \"k\", value \
            = \"k\", values = [{ name = \"v\", is = 300 }] }",
        ),
        &["field `v`: `is` is 300, but the key is at most 255"],
    );
    let records = |bytes: &str| {
        of_packet(&format!(
            "[packet.records]\nname = \"hit\"\nbytes = {bytes}\nfields = [{{ type = \"u32\", \
            name = \"a\" }}]"
        ))
    };
    assert_says(&records("0"), &["test.toml:9:9", "a record of 0 bytes never ends"]);
    assert_says(&records("3"), &["record `hit`, `bytes` is 3, but its fields take 4 bytes"]);
    assert_says(&records("\"size\""), &["known in the header only"]);
}

#[test]
fn roles_are_checked() {
    let with = |role: &str| {
        of_packet(&format!(
            "fields = [{{ type = \"u8\", name = \"a\", bits = [{{ name = \"low\", bits = \
            \"2..0\" }}] }}, {{ \
             type = \"u64\", name = \"b\" }}]\n{role}"
        ))
    };
    assert_says(
        &with("sequence = { value = \"low\" }"),
        &["test.toml:8:", "has 8 different numbers, and fewer than 16"],
    );
    assert_says(&with("sequence = { value = \"low\", bits = 3 }"), &["`bits` is 3; it can be 4"]);
    assert_says(&with("sequence = { value = \"a\", bits = 65 }"), &["`bits` is 65"]);
    assert_says(
        &with("sequence = { value = \"b\", bits = 12 }"),
        &["more than 12 bits hold", "(b) & 0xfff"],
    );
    assert_says(&with("sequence = { value = \"a\", step = 0 }"), &["a constant from 1 to 255"]);
    assert_says(
        &with("sequence = { value = \"a\", timestamp-step-ns = 5 }"),
        &["needs a `timestamp`"],
    );
    assert_says(
        &with("source = [\"a\", \"b\"]"),
        &["with `b` the key is 72 bits wide, and 64 are the most"],
    );
    assert_says(&with("source = [\"a\", \"a\"]"), &["`a` is there twice"]);
    assert_says(&with("event = { key = \"b\", bits = 0 }"), &["`bits` is 0; it can be 1 to 64"]);
    assert_says(&with("fragment = { index = \"a\", count = 4 }"), &["`fragment` needs an `event`"]);
    let event = "event = { key = \"b\" }\n";
    assert_says(
        &with(&format!("{event}fragment = {{ index = \"a\" }}")),
        &["either `index` and `count` or"],
    );
    assert_says(
        &with(&format!("{event}fragment = {{ index = \"a\", total = 4 }}")),
        &["both keys of one pair"],
    );
    assert_says(
        &with(&format!("{event}fragment = {{ index = \"a\", count = 0 }}")),
        &["from 1 to 1048576"],
    );
    assert_says(&with("timestamp = { epoch = \"unix\" }"), &["needs `seconds` or `ticks`"]);
    assert_says(
        &with("timestamp = { ticks = \"b\", epoch = \"unix\" }"),
        &["`timestamp.unit` is missing"],
    );
    assert_says(
        &with("timestamp = { ticks = \"b\", unit = \"8 apples\", epoch = \"unix\" }"),
        &["neither a time nor a rate"],
    );
    assert_says(
        &with("timestamp = { seconds = \"b\", unit = \"1 ns\", epoch = \"unix\" }"),
        &["add `ticks`"],
    );
    assert_says(
        &with("crc = { algorithm = \"CRC-32/ISCS\", at = -4 }"),
        &["`CRC-32/ISCS` is unknown; did you mean `CRC-32/ISCSI`, "],
    );
    assert_says(
        &with("crc = { algorithm = \"CRC-32/ISCSI\", at = -3 }"),
        &["has 4 bytes, so it starts at -4"],
    );
    assert_says(&with("crc = { algorithm = \"CRC-32/ISCSI\", at = 0 }"), &["it covers no bytes"]);
    assert_says(&with("size = { min = 100, max = 20 }"), &["`min` is 100 and `max` is 20"]);
    assert_says(
        &with("size = { max = 8 }"),
        &["field `b`: it needs a packet of 9 bytes", "`size` allows 8"],
    );
    assert_says(&with("emulate = { fields = { c = 1 } }"), &["`emulate.fields`", "`c`"]);
    assert_says(
        &with("emulate = { fields = { a = \"sauce\" } }"),
        &["neither a parameter nor one of source"],
    );
}

/// The message for a packet with these fields and roles; an empty one where it loads.
fn said_of(fields: &str, roles: &str) -> String {
    let text = format!("{HEAD}[[packet]]\nname = \"data\"\nfields = [{fields}]\n{roles}\n");
    let loaded = Description::load("test.toml", &text, &BTreeMap::new());
    loaded.err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn a_counter_wider_than_its_value_would_hide_what_is_lost_at_each_wrap() {
    let of = |value: &str, bits: &str| {
        let fields = "{ type = \"u16\", name = \"a\" }, { type = \"u8\", name = \"b\", max = 99 }, \
                      { type = \"u8\", name = \"c\" }, { type = \"u8\", name = \"d\", min = 1 }";
        said_of(fields, &format!("sequence = {{ value = \"{value}\"{bits} }}"))
    };
    let message = of("a", ", bits = 32");
    assert_says(&message, &["test.toml:8:34", "`bits` is 32, but its value is at most 65535"]);
    assert_says(&message, &["begins anew after 16 bits", "leave `bits` out"]);
    assert_says(&of("(c << 4 | c >> 4) & 0xfff", ", bits = 16"), &["at most 4095"]);
    assert_says(&of("a / 16", ", bits = 16"), &["at most 4095"]);
    assert_says(&of("a * 100 + b", ", bits = 23"), &["from 0 to 6553599, not from 0 to 8388607"]);
    assert_says(&of("d", ", bits = 8"), &["from 1 to 255, not from 0 to 255"]);
    assert_says(&of("a << 16 | c", ""), &["is never 256, and the next number is 65536", "losses"]);
    assert_says(&of("a & 0xff0f", ""), &["is never 16, and the next number is 256"]);
    assert_says(
        &of("a * 100 + c", ""),
        &["`a * 100` and `c` overlap", "give the lower part a `max`"],
    );
    assert_says(&of("a + c", ""), &["`a` and `c` overlap", "mask the sum"]);
    assert_says(&of("5", ""), &["its value has 1 different numbers"]);
    assert_says(&of("b / 10", ""), &["its value has 10 different numbers"]);
    assert_says(&of("c", ", step = 32"), &["its value has 8 different numbers"]);
    assert_says(&of("c", ", step = 256"), &["a constant from 1 to 255"]);
    for (value, bits) in [
        ("a", ""),
        ("a", ", bits = 16"),
        ("c << 16 | a", ", bits = 24"),
        ("c * 65536 + a", ", bits = 24"),
        ("(a + c) & 0xffff", ", bits = 16"),
        ("a * 100 + b", ""),
        ("b", ""),
        ("d", ""),
        ("a & 0xfff0", ", step = 16"),
        ("gray(a)", ", bits = 16"),
    ] {
        assert_eq!(of(value, bits), "", "{value}{bits}");
    }
}

#[test]
fn an_event_key_wider_than_its_value_is_refused_and_the_default_is_its_width() {
    let of = |key: &str| {
        let text = format!(
            "{HEAD}[[packet]]\nname = \"d\"\nfields = [{{ type = \"u16\", name = \"a\" }}, {{ \
             type = \"u8\", name = \"b\", max = 99 }}]\nevent = {{ {key} }}\n"
        );
        Description::load("test.toml", &text, &BTreeMap::new())
            .map(|loaded| loaded.packet_types()[0].event.as_ref().map(|event| event.bits))
            .map_err(|error| error.to_string())
    };
    assert_says(&of("key = \"a\", bits = 32").unwrap_err(), &["`bits` is 32", "at most 65535"]);
    assert_says(&of("key = \"a & 3\"").unwrap_err(), &["has 4 different values"]);
    assert_eq!(of("key = \"a\""), Ok(Some(16)));
    assert_eq!(of("key = \"a / 16\""), Ok(Some(12)), "it wraps there, whoever writes it or not");
    assert_eq!(of("key = \"a * 100 + b\""), Ok(Some(64)), "no number of bits says where");
}

#[test]
fn parts_of_a_fragment_that_could_never_come_are_refused() {
    let of = |index: &str, count: &str| {
        let fields = r#"
            { type = "u32", name = "key" }, { type = "u8", name = "first", min = 1 },
            { type = "u8", name = "w", bits = [
                { name = "two", bits = "1..0" }, { name = "four", bits = "7..4" },
            ] },
        "#;
        let fragment = format!("fragment = {{ index = \"{index}\", count = {count} }}");
        said_of(fields, &format!("event = {{ key = \"key\" }}\n{fragment}"))
    };
    assert_says(&of("two", "8"), &["is at most 3", "at least 8 packets", "none would ever be"]);
    assert_says(&of("first", "8"), &["is at least 1, and it counts from 0", "subtract 1"]);
    assert_says(&of("four & 13", "4"), &["can never be 2"]);
    assert_says(&of("four", "\"w * 0\""), &["must be from 1 to 1048576"]);
    for (index, count) in [("two", "4"), ("four", "4"), ("first - 1", "8"), ("two", "\"four\"")] {
        assert_eq!(of(index, count), "", "{index} of {count}");
    }
    let bytes = "event = { key = \"key\" }\nfragment = { offset = \"w + 4\", total = 512 }";
    let fields = "{ type = \"u32\", name = \"key\" }, { type = \"u8\", name = \"w\" }";
    assert_says(&said_of(fields, bytes), &["`fragment.offset` is at least 4"]);
}

#[test]
fn a_source_that_changes_from_packet_to_packet_is_refused() {
    let of = |source: &str| {
        let fields = r#"
            { type = "u32", name = "w", bits = [
                { name = "n", bits = "31..16" }, { name = "lane", bits = "15..8" },
            ] },
            { type = "u16", name = "key" }, { type = "u8", name = "part" },
        "#;
        let roles = r#"
            computed = [{ name = "low", value = "n & 15" }, { name = "all", value = "w >> 8" }]
            sequence = { value = "n" }
            event = { key = "key" }
            fragment = { index = "part & 7", count = 8 }
        "#;
        said_of(fields, &format!("{roles}\nsource = [\"{source}\"]"))
    };
    assert_says(&of("n"), &["`source`: `n` holds the packet counter", "a source of its own"]);
    assert_says(&of("w"), &["`w` holds the packet counter"]);
    assert_says(&of("all"), &["`all` holds the packet counter"]);
    assert_says(&of("key"), &["`key` holds the event key"]);
    assert_says(&of("part"), &["`part` holds the fragment index"]);
    assert_eq!(of("lane"), "");
    // Boards that take turns share a counter, and its lowest bits say whose turn it is.
    assert_eq!(of("low"), "");
}

#[test]
fn a_time_stamp_that_cannot_find_losses_of_whole_wraps_is_refused() {
    let of = |field: &str, unit: &str, step: &str| {
        let fields =
            format!("{{ type = \"u8\", name = \"n\" }}, {{ type = \"{field}\", name = \"t\" }}");
        let time = format!("timestamp = {{ ticks = \"t\", unit = \"{unit}\", epoch = \"start\" }}");
        said_of(&fields, &format!("sequence = {{ value = \"n\"{step} }}\n{time}"))
    };
    let every_us = ", timestamp-step-ns = 1000";
    assert_says(&of("u16", "1 ns", every_us), &["after 256000 ns, and the time stamp after 65536"]);
    assert_says(&of("u64", "1 ms", every_us), &["one tick of the time stamp is 1000000 ns"]);
    assert_says(&of("u64", "1 ns", ", step = 3, timestamp-step-ns = 9"), &["divides the 256"]);
    assert_says(&of("u64", "1 ns", ", timestamp-step-ns = 0"), &["is 0; write the time"]);
    assert_eq!(of("u24", "1 ns", every_us), "");
    assert_eq!(of("u64", "1 us", every_us), "");
}

#[test]
fn select_is_needed_by_all_types_but_the_last() {
    let packet = |name: &str| format!("[[packet]]\nname = \"{name}\"\n");
    let message = refusal(&format!("{HEAD}{}{}", packet("a"), packet("b")), &[]);
    assert_says(&message, &["test.toml:6:8", "packet `a`: `select` is missing", "put it last"]);
    let message = of_packet(
        "select = \"b\"\nfields = [{ type = \"u8\", name = \"a\" }, { type = \"u8\", when = \
        \"a\" }, { type = \
         \"u8\", name = \"b\" }]",
    );
    assert_says(&message, &["test.toml:7:10", "only fields at fixed places that every packet has"]);
}

#[test]
fn parameters_are_checked_against_the_file_and_its_limits() {
    let text = format!(
        "{HEAD}[parameters]\nchannels = {{ default = 16, min = 1, max = 64, help = \"h\" \
        }}\n[[packet]]\nname = \
         \"d\"\n"
    );
    let message = refusal(&text, &[("chanels", 3)]);
    assert_says(&message, &["unknown parameter `chanels`; did you mean `channels`?"]);
    let message = refusal(&text, &[("channels", 65)]);
    assert_says(&message, &["test.toml:6:", "the experiment's value is 65; it can be 1 to 64"]);
    let message = refusal(&text.replace("16", "0"), &[]);
    assert_says(&message, &["its default is 0; it can be 1 to 64"]);
    let text =
        text.replace("[[packet]]", "[[packet]]\nfields = [{ type = \"u8\", name = \"channels\" }]");
    assert_says(&refusal(&text, &[]), &["`channels` is also a parameter"]);
    let message = refusal(&format!("{HEAD}[[packet]]\nname = \"d\"\n"), &[("x", 1)]);
    assert_says(&message, &["the format has none"]);
}

#[test]
fn a_value_computed_from_itself_and_too_much_of_anything_are_refused() {
    let message = of_packet(
        "computed = [{ name = \"a\", value = \"b\" }, { name = \"b\", value = \"a & 1\" }]",
    );
    assert_says(&message, &["is computed from itself"]);
    let many =
        (0..1100).map(|n| format!("{{ type = \"u8\", name = \"f{n}\" }},")).collect::<String>();
    assert_says(&of_fields(&many), &["more than 1024 fields"]);
    let packets = (0..65).map(|n| format!("[[packet]]\nname = \"p{n}\"\nselect = 1\n"));
    let message = refusal(&format!("{HEAD}{}", packets.collect::<String>()), &[]);
    assert_says(&message, &["more than 64 packet types"]);
    let roles = (0..400).map(|n| format!("{{ type = \"u8\", name = \"f{n}\", max = 9 }},"));
    assert_says(&of_fields(&roles.collect::<String>()), &["needs more than 256 values at once"]);
    assert_says(&refusal(&" ".repeat(2 << 20), &[]), &["1048576 are allowed"]);
}
