//! SCINET (Richter, Ohlenroth, 1999): SCI for data acquisition, figures 7 to 16.

pub mod stand_a;
pub mod stand_b;
