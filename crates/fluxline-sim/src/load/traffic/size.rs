//! The lengths of messages.

use fluxline_core::random::Draw;

use super::PlanError;

/// Lengths of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// One length for all messages \[bytes\].
    Fixed(u32),
    /// Several lengths \[bytes\] with their relative frequencies.
    Mix(Vec<(u32, u32)>),
}

impl Size {
    /// The mean length \[bytes\].
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Size::Fixed(bytes) => f64::from(*bytes),
            Size::Mix(parts) => {
                let weights: f64 = parts.iter().map(|part| f64::from(part.1)).sum();
                parts.iter().map(|part| f64::from(part.0) * f64::from(part.1)).sum::<f64>()
                    / weights
            }
        }
    }

    /// The greatest length \[bytes\].
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Size::Fixed(bytes) => *bytes,
            Size::Mix(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let is_empty = match self {
            Size::Fixed(bytes) => *bytes == 0,
            Size::Mix(parts) => {
                parts.iter().all(|part| part.1 == 0) || parts.iter().any(|part| part.0 == 0)
            }
        };
        if is_empty {
            let what = "messages need at least one byte, and a mix at least one weight";
            return Err(PlanError(what.into()));
        }
        Ok(())
    }

    pub(super) fn draw(&self, draw: &mut Draw) -> u32 {
        match self {
            Size::Fixed(bytes) => *bytes,
            Size::Mix(parts) => {
                let weights: u64 = parts.iter().map(|part| u64::from(part.1)).sum();
                let mut at = draw.below(weights);
                for &(bytes, weight) in parts {
                    if at < u64::from(weight) {
                        return bytes;
                    }
                    at -= u64::from(weight);
                }
                parts.last().map_or(1, |part| part.0)
            }
        }
    }
}
