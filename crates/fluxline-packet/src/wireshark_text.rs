//! Fields of text in the dissector: decimal numbers, and bytes up to a mark.

use alloc::format;
use alloc::string::String;

use super::layout::{Item, ValueKind};
use super::lua::{about, quote};
use super::wireshark::{Scope, Writer};

impl Writer {
    /// Shows one text, whose content has `content` bytes.
    pub(super) fn text(&mut self, scope: &Scope<'_>, index: usize, item: &Item, at: &str) {
        let super::layout::ItemKind::Text(text) = &item.kind else { return };
        let Some(name) = item.name.as_deref() else { return };
        let pad = scope.pad;
        let about = about(item.unit.as_deref(), &item.help);
        let note = match about.is_empty() {
            true => String::new(),
            false => format!(" t[{index}]:append_text({})", quote(&about)),
        };
        if text.content == ValueKind::Bytes {
            let field = self.declare(scope, name, "bytes", "");
            let add = format!("t[{index}] = tree:add({field}, tvb({at}, content))");
            return self.line(pad, &format!("if content > 0 then {add}{note} end"));
        }
        let is_signed = text.content == ValueKind::Signed;
        let (kind, call) = match is_signed {
            true => ("int64", "signed_decimal"),
            false => ("uint64", "decimal"),
        };
        let field = self.declare(scope, name, kind, ", base.DEC");
        self.line(pad, &format!("local word = {call}(tvb, {at}, content)"));
        let sentence = quote(&format!("{name} is not a decimal number"));
        let wrong = format!("tree:add_proto_expert_info(rule, {sentence})");
        self.line(pad, &format!("if word == nil then {wrong} else"));
        self.line(
            pad,
            &format!("  t[{index}] = tree:add({field}, tvb({at}, content), word){note}"),
        );
        if let Some(id) = item.value.filter(|_| !is_signed) {
            self.line(pad, &format!("  v[{id}] = word"));
        }
        self.line(pad, "end");
    }
}
