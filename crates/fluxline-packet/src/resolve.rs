//! From fields as written to a checked layout: names, places, ranges, and the order of computing.
//!
//! Two passes over the fields: the first gives each name its number, so that expressions may use
//! names in any order; the second parses the expressions, walks the fields as a packet would be
//! read, and proves each expression at the moment at which the program will compute it.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use toml::Spanned;

use super::declare::declare;
use super::expression::{Expr, constant_of};
use super::interval::ValueRanges;
use super::layout::{ItemKind, Layout, Origin, Stage};
use super::scope::{Context, Names, PACKET_BYTES_MAX, Resolved, Written, title};
use super::text::{Text, TextEnd};
use super::{model, walk};
use fluxline_toml::LoadError;

/// Resolves the fields of one part.
pub(crate) fn resolve(
    context: &mut Context<'_>,
    written: &Written<'_>,
) -> Result<Resolved, LoadError> {
    let (mut layout, names) = declare(context, written, resolve)?;
    fill_expressions(context, written, &names, &mut layout)?;
    let select = match written.select {
        Some(select) => {
            let what = format!("{}, `select`", written.place);
            Some(context.expression(select.get_ref(), select.span(), &what, &names)?)
        }
        None => None,
    };
    order_computed(context, written, &mut layout, select.as_ref())?;
    let (layout, size) = walk::prove(context, written, layout, select.as_ref())?;
    Ok(Resolved { layout, select, names, size })
}

/// Second pass: the expressions, now that all names are known.
fn fill_expressions(
    context: &Context<'_>,
    written: &Written<'_>,
    names: &Names,
    layout: &mut Layout,
) -> Result<(), LoadError> {
    for (item, field) in layout.items.iter_mut().zip(written.fields) {
        let field = field.get_ref();
        let title = title(written.place, item.name.as_deref());
        let optional = |written: &Option<Spanned<model::Expression>>, key: &str| {
            let parse = |expression: &Spanned<model::Expression>| {
                let what = format!("{title}, `{key}`");
                context.expression(expression.get_ref(), expression.span(), &what, names)
            };
            written.as_ref().map(parse).transpose()
        };
        item.when = optional(&field.when, "when")?;
        item.rules.equals = optional(&field.equals, "equals")?.map(fold);
        for (part, bits) in item.bits.iter_mut().zip(&field.bits) {
            let equals = &bits.get_ref().equals;
            part.rules.equals = optional(equals, &format!("{}.equals", part.name))?.map(fold);
        }
        match &mut item.kind {
            ItemKind::Word { .. } => {}
            ItemKind::Bytes { length } => {
                *length = fold(optional(&field.length, "length")?.unwrap_or(Expr::Constant(0)));
            }
            ItemKind::Text(Text { end: TextEnd::Length(length), .. }) => {
                *length = fold(optional(&field.length, "length")?.unwrap_or(Expr::Constant(0)));
            }
            ItemKind::Text(_) => {}
            ItemKind::List(list) => {
                let Some(as_written) = &field.list else { continue };
                let count = &as_written.get_ref().count;
                let what = format!("{title}, `list.count`");
                list.count =
                    fold(context.expression(count.get_ref(), count.span(), &what, names)?);
            }
        }
    }
    for (id, computed) in layout.computed_order.clone().into_iter().zip(written.computed) {
        let computed = computed.get_ref();
        let what = title(written.place, Some(computed.name.get_ref()));
        let expression = computed.value.get_ref();
        let parsed = context.expression(expression, computed.value.span(), &what, names)?;
        let parsed_when = match &computed.when {
            Some(when) => {
                let what = format!("{what}, `when`");
                Some(context.expression(when.get_ref(), when.span(), &what, names)?)
            }
            None => None,
        };
        if let Origin::Computed { value, when, .. } = &mut layout.values[id].origin {
            *value = parsed;
            *when = parsed_when;
        }
    }
    Ok(())
}

/// A constant expression becomes its constant, when its evaluation is legal (checked later if not).
pub(crate) fn fold(expression: Expr) -> Expr {
    let known = ValueRanges {
        value: &|_| Err(String::new()),
        name: &|_| String::new(),
        definition: &|_| None,
        size: (0, u64::from(PACKET_BYTES_MAX)),
    };
    match (constant_of(&expression), known.range(&expression)) {
        (Some(constant), Ok(_)) => Expr::Constant(constant),
        _ => expression,
    }
}

/// The items that must be read before a value is known, and the order of computing.
struct Order<'a> {
    layout: &'a Layout,
    after: Vec<Option<usize>>,
    on_path: Vec<bool>,
    order: Vec<usize>,
}

impl Order<'_> {
    /// Items needed before `id` is known; the error is the name of a value that needs itself.
    fn visit(&mut self, id: usize) -> Result<usize, usize> {
        if let Some(after) = self.after[id] {
            return Ok(after);
        }
        let after = match &self.layout.values[id].origin {
            Origin::Word { item } | Origin::Bits { item, .. } | Origin::Picked { item, .. } => {
                item + 1
            }
            Origin::Computed { value, when, .. } => {
                if core::mem::replace(&mut self.on_path[id], true) {
                    return Err(id);
                }
                let mut uses = Vec::new();
                value.for_each_value(&mut |used| uses.push(used));
                when.iter().for_each(|when| when.for_each_value(&mut |used| uses.push(used)));
                let mut after = 0;
                for used in uses {
                    after = after.max(self.visit(used)?);
                }
                self.order.push(id);
                after
            }
        };
        self.after[id] = Some(after);
        Ok(after)
    }
}

/// Decides when each computed value is computed.
fn order_computed(
    context: &Context<'_>,
    written: &Written<'_>,
    layout: &mut Layout,
    select: Option<&Expr>,
) -> Result<(), LoadError> {
    let count = layout.values.len();
    let mut order =
        Order { layout, after: vec![None; count], on_path: vec![false; count], order: Vec::new() };
    for (position, &id) in layout.computed_order.iter().enumerate() {
        order.visit(id).map_err(|id| {
            let what = title(written.place, Some(&layout.values[id].name));
            let span = written.computed[position].span();
            context.source.error(span, format!("{what} is computed from itself"))
        })?;
    }
    let (after, sequence) = (order.after, order.order);
    let mut stages = vec![Stage::End; count];
    let mut early = Vec::new();
    for item in &layout.items {
        let mut visit = |expression: &Expr| expression.for_each_value(&mut |id| early.push(id));
        item.when.iter().for_each(&mut visit);
        match &item.kind {
            ItemKind::Bytes { length } => visit(length),
            ItemKind::Text(Text { end: TextEnd::Length(length), .. }) => visit(length),
            ItemKind::List(list) => visit(&list.count),
            ItemKind::Word { .. } | ItemKind::Text(_) => {}
        }
    }
    mark(layout, early, &mut stages, |id| Stage::AfterItems(after[id].unwrap_or(0)));
    let mut for_select = Vec::new();
    select.iter().for_each(|select| select.for_each_value(&mut |id| for_select.push(id)));
    mark(layout, for_select, &mut stages, |_| Stage::Select);
    for &id in &sequence {
        if let Origin::Computed { stage, .. } = &mut layout.values[id].origin {
            *stage = stages[id];
        }
    }
    layout.computed_order = sequence;
    Ok(())
}

/// Gives `roots` and all that they are computed from a stage.
fn mark(
    layout: &Layout,
    mut roots: Vec<usize>,
    stages: &mut [Stage],
    stage: impl Fn(usize) -> Stage,
) {
    let mut seen = vec![false; stages.len()];
    while let Some(id) = roots.pop() {
        if core::mem::replace(&mut seen[id], true) {
            continue;
        }
        stages[id] = stage(id);
        if let Origin::Computed { value, when, .. } = &layout.values[id].origin {
            value.for_each_value(&mut |used| roots.push(used));
            when.iter().for_each(|when| when.for_each_value(&mut |used| roots.push(used)));
        }
    }
}
