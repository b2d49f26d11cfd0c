//! The role of a board's own counts: what it took from its converters, and what it dropped.
//!
//! They count blocks, each of which is the data of one packet. The receiver compares their growth
//! with that of the packet counter, so the two must count on where the packet counter does.

use toml::Spanned;

use super::expression::Expr;
use super::layout::Counts;
use super::model;
use super::roles::Roles;
use fluxline_toml::LoadError;

/// Narrower counts begin anew within losses that happen.
const BITS_MIN: u32 = 16;

impl Roles<'_, '_> {
    /// Checks the counts of a packet type.
    pub(super) fn counts(
        &self,
        written: Option<&Spanned<model::Counts>>,
        has_sequence: bool,
    ) -> Result<Option<Counts>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        if !has_sequence {
            let message = "`counts` needs a `sequence`: the packets that the board sent are \
                           counted by it";
            return Err(self.error(written.span(), message));
        }
        let model::Counts { taken, dropped } = written.get_ref();
        let (taken, taken_bits) = self.count(taken, "`counts.taken`")?;
        let (dropped, dropped_bits) = self.count(dropped, "`counts.dropped`")?;
        let bits = u8::try_from(taken_bits.min(dropped_bits)).unwrap_or(64);
        Ok(Some(Counts { taken, dropped, bits }))
    }

    /// A count with its width: a field that every packet has.
    fn count(
        &self,
        written: &Spanned<model::Expression>,
        key: &str,
    ) -> Result<(Expr, u32), LoadError> {
        let (value, _) = self.expression(written, key)?;
        let is_conditional = match &value {
            Expr::Value(id) => self.header.layout.values[*id].conditional,
            _ => false,
        };
        match self.field_bits(&value).filter(|_| !is_conditional) {
            None => {
                let message =
                    alloc::format!("{key} must be a field that every packet has; name one");
                Err(self.error(written.span(), &message))
            }
            Some(bits) if bits < BITS_MIN => {
                let message = alloc::format!(
                    "{key} has {bits} bits; {BITS_MIN} are the least, because a narrower count \
                     begins anew within a loss"
                );
                Err(self.error(written.span(), &message))
            }
            Some(bits) => Ok((value, bits)),
        }
    }
}
