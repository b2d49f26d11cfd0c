//! Totals of rings and switches that were measured with Dolphin's cards, or simulated.

use super::super::fact::Finding;
use super::super::validation;
use super::facts;
use crate::net::sci::ConfigError;

/// Returns the facts with the model's numbers.
///
/// # Errors
/// When a preset is invalid (a defect).
pub fn findings() -> Result<Vec<Finding>, ConfigError> {
    let totals = validation::totals()?;
    Ok(vec![
        facts::LC1_RING.model(totals.lc1_ring),
        facts::LC1_SWITCH.model(totals.lc1_switch),
        facts::LC2_TOTAL.model(totals.lc2_ring.min(totals.lc2_switch)),
        facts::KNEE.model(validation::knee_percent()?),
    ])
}
