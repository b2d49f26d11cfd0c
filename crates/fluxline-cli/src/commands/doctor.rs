//! `fluxline doctor`: what in this host will lose packets, and the command that mends it.

use fluxline::doctor::{Verdict, checks};
use serde_json::json;

use crate::failure::Failure;
use crate::say;

/// Prints the checks, worst first.
pub fn doctor(json: bool) -> Result<(), Failure> {
    let checks = checks();
    let word = |verdict: &Verdict| match verdict {
        Verdict::Good => "good",
        Verdict::Warn => "warn",
        Verdict::Bad => "bad",
    };
    if json {
        let all: Vec<_> = checks
            .iter()
            .map(|check| {
                json!({
                    "name": check.name, "found": check.found, "wanted": check.wanted,
                    "verdict": word(&check.verdict), "why": check.why, "remedy": check.remedy,
                })
            })
            .collect();
        super::print_json(&json!({ "checks": all }));
        return Ok(());
    }
    let width = |text: fn(&fluxline::doctor::Check) -> &str| {
        checks.iter().map(|check| text(check).chars().count()).max().unwrap_or(0)
    };
    let (names, found) = (width(|check| &check.name), width(|check| &check.found));
    for check in &checks {
        say!(
            "{:<4}  {:<names$}  {:<found$}  wanted {}",
            word(&check.verdict),
            check.name,
            check.found,
            check.wanted
        );
        if check.verdict != Verdict::Good {
            say!("      {}", check.why);
            if let Some(remedy) = &check.remedy {
                say!("      mend: {remedy}");
            }
        }
    }
    Ok(())
}
