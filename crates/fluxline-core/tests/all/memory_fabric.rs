//! The in-memory fabric obeys the same laws as every other link.

use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::fabric::memory::Lab;
use fluxline_core::{Moment, Span};

fn pair() -> Pair {
    let lab = Lab::new();
    let (left, right) = (lab.node("left").expect("new"), lab.node("right").expect("new"));
    let mut now = Moment::default();
    Pair {
        left: Box::new(left),
        right: Box::new(right),
        right_name: "right".into(),
        right_again: Some(Box::new(move || Box::new(lab.node("right").expect("it is gone")))),
        now: Box::new(move || {
            now = now + Span::from_ms(1);
            now
        }),
    }
}

conformance!(memory, pair());
