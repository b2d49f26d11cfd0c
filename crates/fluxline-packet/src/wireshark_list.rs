//! Lists in the dissector: their items, and the values that are taken out by key.

use alloc::format;
use alloc::string::ToString;

use super::layout::{FieldOffset, Item, ItemKind, List};
use super::lua::{constant, quote, read};
use super::wireshark::{SHOWN_MAX, Scope, Writer};

impl Writer {
    pub(super) fn list(&mut self, scope: &Scope<'_>, item: &Item, list: &List) {
        let name = item.name.as_deref().unwrap_or("list");
        let path = format!("{}.{name}", scope.path);
        let inner = format!("{}  ", scope.pad);
        let bytes = list.item_bytes;
        let title = quote(&format!("{name}, item "));
        self.line(scope.pad, &format!("for number = 0, length / {bytes} - 1 do"));
        let outer = "local outer, first, tree = v, at + number * ITEM, tree";
        self.line(&inner, &outer.replace("ITEM", &bytes.to_string()));
        self.line(&inner, "local v, t, at, fin = {}, {}, first, first");
        let show = format!("if number < {SHOWN_MAX} then");
        self.line(&inner, &show);
        self.line(&inner, &format!("  tree = tree:add(tvb(first, {bytes}), {title} .. number)"));
        let deep = format!("{inner}  ");
        let item_scope = Scope { layout: &list.item, path: &path, base: "first", pad: &deep };
        self.layout(&item_scope, "return");
        self.line(&inner, "end");
        self.picks(list, &inner);
        self.line(&inner, "v = outer");
        self.line(scope.pad, "end");
        if let Some(pick) = &list.pick {
            for picked in &pick.values {
                let field = self.declare(scope, &picked.name, "uint64", ", base.DEC");
                let id = picked.value;
                let shown = format!("tree:add({field}, v[{id}]):set_generated()");
                self.line(scope.pad, &format!("if v[{id}] then {shown} end"));
                if picked.required {
                    let text = quote(&format!("this packet has no item `{}`", picked.name));
                    let note = format!("tree:add_proto_expert_info(rule, {text})");
                    self.line(scope.pad, &format!("if not v[{id}] then {note} end"));
                }
            }
        }
        let note = quote(&format!("only the first {SHOWN_MAX} items are shown"));
        self.line(
            scope.pad,
            &format!("if length > {SHOWN_MAX} * {bytes} then tree:add({note}) end"),
        );
    }

    /// Takes values by key out of one list item, which starts at `first`.
    fn picks(&mut self, list: &List, pad: &str) {
        let Some(pick) = &list.pick else { return };
        for item in &list.item.items {
            let (FieldOffset::Fixed(at), Some(bytes)) = (item.place, item.fixed_bytes()) else {
                continue;
            };
            let wanted = item.value.is_some_and(|id| id == pick.key || id == pick.value)
                || item.bits.iter().any(|p| p.value == pick.key || p.value == pick.value);
            if !wanted || !matches!(item.kind, ItemKind::Word { .. }) {
                continue;
            }
            self.line(
                pad,
                &format!("local word = {}", read(item, &format!("first + {at}"), bytes)),
            );
            self.keep(item, pad);
        }
        for picked in &pick.values {
            let is = constant(picked.is);
            let take = format!("outer[{}] = v[{}]", picked.value, pick.value);
            self.line(pad, &format!("if v[{}] == {is} then {take} end", pick.key));
        }
    }
}
