//! The colours of links, the same for a page and for a file of its own.

use super::super::heat::{STEPS, VIRIDIS};

/// Rules beside the colours, for a page and for a file.
const RULES: &str = include_str!("../../../assets/network.css");
/// The variables of the page that the rules use, in its light theme.
const VARIABLES: &[(&str, &str)] = &[
    ("--ground", "#ffffff"),
    ("--raised", "#f4f6f8"),
    ("--ink", "#1b2126"),
    ("--soft", "#58636d"),
    ("--rule", "#d5dbe1"),
    ("--c2", "#e37618"),
    ("--bad", "#b3261e"),
];

/// Writes the rules of a page, in both themes.
pub fn push_rules(out: &mut String) {
    out.push_str(RULES);
    for (step, colour) in VIRIDIS.iter().enumerate() {
        push_rule(out, "", STEPS - 1 - step, colour);
        push_rule(out, "[data-theme=\"dark\"] ", step, colour);
    }
    out.push('\n');
}

/// Returns the rules of a file: the light theme, without variables, which some viewers lack.
pub fn of_file() -> String {
    let mut out = RULES.to_owned();
    for (name, colour) in VARIABLES {
        out = out.replace(&format!("var({name})"), colour);
    }
    for (step, colour) in VIRIDIS.iter().enumerate() {
        push_rule(&mut out, "", STEPS - 1 - step, colour);
    }
    out
}

fn push_rule(out: &mut String, theme: &str, step: usize, colour: &str) {
    // Width repeats the colour, for print in grey.
    let width = 2.0 + 5.0 * step as f64 / (STEPS - 1) as f64;
    out.push_str(&format!(
        "{theme}.m{step} .line{{stroke:{colour};stroke-width:{width:.1}}}\
         {theme}.m{step} .head,{theme}rect.m{step}{{fill:{colour}}}"
    ));
}

/// Returns the class of a number's colour.
pub fn class(value: f64, high: f64) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let part = if high > 0.0 { value / high } else { 0.0 };
    format!("m{}", ((part * STEPS as f64) as usize).min(STEPS - 1))
}

#[cfg(test)]
mod tests {
    use super::{class, of_file};

    #[test]
    fn a_file_has_no_variables_because_some_viewers_lack_them() {
        assert!(!of_file().contains("var("), "{}", of_file());
    }

    #[test]
    fn numbers_have_the_colours_of_their_share() {
        assert_eq!(class(0.0, 50.0), "m0");
        assert_eq!(class(25.0, 50.0), "m8");
        assert_eq!(class(50.0, 50.0), "m15");
        assert_eq!(class(0.0, 0.0), "m0");
        assert_eq!(class(f64::NAN, 50.0), "none");
    }
}
