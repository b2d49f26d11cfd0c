//! Lua for the dissector: texts, expressions over unsigned 64-bit values, and what every
//! generated file starts with.
//!
//! Lua's own numbers are doubles in the Lua that many Wiresharks carry, so every value of a packet
//! is a `UInt64` of Wireshark's; a missing one reads as 0.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::expression::{Binary, Expr};
use super::layout::Item;
use super::model::ByteOrder;
use super::text::{Text, TextEnd};

/// Tries the packet types in their order.
pub(super) const MAIN: &str = r#"
function proto.dissector(tvb, pinfo, tree)
  local size, port = tvb:reported_length_remaining(), pinfo.dst_port
  if tvb:len() < size then size = tvb:len() end
  if size == 0 then return 0 end
  pinfo.cols.protocol = FORMAT
  local top = tree:add(proto, tvb())
  for number = 1, #dissect do
    if select[number] == nil or select[number](tvb, size, port) then
      dissect[number](tvb, size, port, pinfo, top)
      return tvb:len()
    end
  end
  top:add_proto_expert_info(rule, "none of the packet types of " .. FORMAT)
  return tvb:len()
end
"#;

/// Helpers of the generated file.
pub(super) const PRELUDE: &str = r#"
local ZERO, ONE = UInt64.new(0), UInt64.new(1)
local function U(low, high) return UInt64.new(low, high or 0) end
local function B(truth) if truth then return ONE end return ZERO end
local function T(value) return value ~= nil and value ~= ZERO end
local function V(values, id) return values[id] or ZERO end
local function N(value) return value:tonumber() end
local function band(a, b) return a:band(b) end
local function bor(a, b) return a:bor(b) end
local function bxor(a, b) return a:bxor(b) end
local function shl(a, b) return a:lshift(b:tonumber()) end
local function shr(a, b) return a:rshift(b:tonumber()) end
local function least(a, b) if a < b then return a end return b end
local function most(a, b) if a < b then return b end return a end
local function gray(a)
  for _, shift in ipairs({1, 2, 4, 8, 16, 32}) do a = a:bxor(a:rshift(shift)) end
  return a
end
local function big(tvb, at, bytes) return tvb(at, bytes):uint64() end
local function little(tvb, at, bytes) return tvb(at, bytes):le_uint64() end
local function samples(range, bits, signed, lowest_first)
  local text, count = " =", math.floor(range:len() * 8 / bits)
  for number = 0, math.min(count, 32) - 1 do
    local value = 0
    for at = number * bits, (number + 1) * bits - 1 do
      local byte, place = range(math.floor(at / 8), 1):uint(), at % 8
      if not lowest_first then place = 7 - place end
      local one = math.floor(byte / 2 ^ place) % 2
      if lowest_first then value = value + one * 2 ^ (at - number * bits)
      else value = value * 2 + one end
    end
    if signed and value >= 2 ^ (bits - 1) then value = value - 2 ^ bits end
    text = text .. string.format(" %d", value)
  end
  if count > 32 then text = text .. " ..." end
  return text
end
local function marked(tvb, at, size, marks)
  for place = at, size - 1 do
    if marks:find(string.char(tvb(place, 1):uint()), 1, true) then
      return place - at + 1, place - at
    end
  end
  local length = math.max(size - at, 0)
  return length, length
end
local function digits(tvb, at, length)
  if length == 0 then return nil end
  return tvb(at, length):raw():match("^%s*([+-]?%d+)%s*$")
end
local function decimal(tvb, at, length)
  local text, value = digits(tvb, at, length), ZERO
  if text == nil or text:find("^[+-]") then return nil end
  for digit in text:gmatch("%d") do value = value * U(10) + U(tonumber(digit)) end
  return value
end
local function signed_decimal(tvb, at, length)
  local text = digits(tvb, at, length)
  return text and Int64.new(tonumber(text))
end
local function bits(word, low, mask) return word:rshift(low):band(mask) end
"#;

/// A text in quotes.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A constant.
pub(super) fn constant(value: u64) -> String {
    let (low, high) = (value & 0xFFFF_FFFF, value >> 32);
    match (high, low) {
        (0, 0) => String::from("ZERO"),
        (0, 1) => String::from("ONE"),
        (0, _) => format!("U({low})"),
        _ => format!("U({low:#x}, {high:#x})"),
    }
}

/// An expression over the values in the Lua table `v`, the size in `size`, the port in `port`.
pub(super) fn expression(expression: &Expr) -> String {
    let mut out = String::new();
    write_expression(expression, &mut out);
    out
}

fn write_expression(of: &Expr, out: &mut String) {
    let (operator, left, right) = match of {
        Expr::Constant(value) => return out.push_str(&constant(*value)),
        Expr::Value(id) => {
            let _ = write!(out, "V(v, {id})");
            return;
        }
        Expr::Size => return out.push_str("U(size)"),
        Expr::Port => return out.push_str("U(port)"),
        Expr::Not(of) => return call("B(not T", &[of], ")", out),
        Expr::Gray(of) => return call("gray", &[of], "", out),
        Expr::Binary(operator, left, right) => (operator, left, right),
    };
    let function = match operator {
        Binary::And => "band",
        Binary::Or => "bor",
        Binary::ExclusiveOr => "bxor",
        Binary::ShiftLeft => "shl",
        Binary::ShiftRight => "shr",
        Binary::Minimum => "least",
        Binary::Maximum => "most",
        _ => "",
    };
    if !function.is_empty() {
        return call(function, &[left, right], "", out);
    }
    let (before, between, after) = match operator {
        Binary::BothTrue => ("B(T(", ") and T(", "))"),
        Binary::AnyTrue => ("B(T(", ") or T(", "))"),
        Binary::Equal => ("B(", " == ", ")"),
        Binary::NotEqual => ("B(", " ~= ", ")"),
        Binary::Less => ("B(", " < ", ")"),
        Binary::LessOrEqual => ("B(", " <= ", ")"),
        Binary::Greater => ("B(", " > ", ")"),
        Binary::GreaterOrEqual => ("B(", " >= ", ")"),
        Binary::Subtract => ("(", " - ", ")"),
        Binary::Multiply => ("(", " * ", ")"),
        Binary::Divide => ("(", " / ", ")"),
        Binary::Remainder => ("(", " % ", ")"),
        _ => ("(", " + ", ")"),
    };
    out.push_str(before);
    write_expression(left, out);
    out.push_str(between);
    write_expression(right, out);
    out.push_str(after);
}

fn call(function: &str, arguments: &[&Expr], after: &str, out: &mut String) {
    out.push_str(function);
    out.push('(');
    for (number, argument) in arguments.iter().enumerate() {
        out.push_str(if number == 0 { "" } else { ", " });
        write_expression(argument, out);
    }
    out.push(')');
    out.push_str(after);
}

/// The Lua expressions of a text's whole length and of its content's.
pub(super) fn text_lengths(text: &Text, at: &str) -> String {
    match &text.end {
        TextEnd::Length(length) => {
            let length = expression(length);
            format!("N({length}), N({length})")
        }
        TextEnd::Mark(marks) => {
            // By their numbers, as Lua's escapes.
            let marks: String = marks.iter().map(|mark| format!("\\{mark:03}")).collect();
            format!("marked(tvb, {at}, size, \"{marks}\")")
        }
    }
}

/// Unit and help, to be appended to a value.
pub(super) fn about(unit: Option<&str>, help: &str) -> String {
    let unit = unit.map_or(String::new(), |unit| format!(" [{unit}]"));
    if help.is_empty() { unit } else { format!("{unit}  {help}") }
}

/// Reads the word of an item at a place as a `UInt64`.
pub(super) fn read(item: &Item, at: &str, bytes: u32) -> String {
    match item.byte_order {
        ByteOrder::Big => format!("big(tvb, {at}, {bytes})"),
        ByteOrder::Little => format!("little(tvb, {at}, {bytes})"),
    }
}

/// The call that shows an item in its byte order.
pub(super) fn add(item: &Item) -> &'static str {
    match item.byte_order {
        ByteOrder::Big => "add",
        ByteOrder::Little => "add_le",
    }
}
