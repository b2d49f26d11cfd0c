//! Counters, each declared as one row: name, merging of values, unit, meaning and remedy.
//!
//! The row makes the field, the documentation page, the export and the legend.

/// The rule by which several values of one counter become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Values add up.
    Sum,
    /// The largest value is kept.
    Maximum,
}

/// A counter's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The counter's name, the same in code, files, docs and export.
    pub name: &'static str,
    /// The unit, in words: `packet`, `byte`, `event`.
    pub unit: &'static str,
    /// The rule for merging.
    pub merge: Merge,
    /// The counted thing, in one sentence.
    pub help: &'static str,
    /// The remedy when it is not zero; empty where none is needed.
    pub remedy: &'static str,
}

/// Declares a struct of `u64` counters together with their rows.
///
/// ```
/// fluxline_core::counters! {
///     /// Counters of a receiver.
///     pub struct Receiver {
///         received [Sum "packet"] "Packets received" => "";
///         dropped [Sum "packet"] "Packets dropped" => "Use a larger ring.";
///     }
/// }
/// let mut receiver = Receiver::default();
/// receiver.received += 2;
/// receiver.merge(&Receiver { received: 1, dropped: 4 });
/// assert_eq!(receiver.rows().collect::<Vec<_>>()[0].1, 3);
/// assert_eq!(Receiver::ROWS[1].remedy, "Use a larger ring.");
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$outer:meta])*
        $visibility:vis struct $name:ident {
            $( $field:ident [$merge:ident $unit:literal] $help:literal => $remedy:literal; )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $visibility struct $name {
            $( #[doc = concat!($help, " \\[", $unit, "\\].")] pub $field: u64, )*
        }

        impl $name {
            /// One row per counter, in the order of declaration.
            pub const ROWS: &'static [$crate::counters::Row] = &[
                $( $crate::counters::Row {
                    name: stringify!($field),
                    unit: $unit,
                    merge: $crate::counters::Merge::$merge,
                    help: $help,
                    remedy: $remedy,
                }, )*
            ];

            /// Returns each row with its value.
            pub fn rows(&self) -> impl Iterator<Item = (&'static $crate::counters::Row, u64)> + '_ {
                Self::ROWS.iter().zip([ $( self.$field, )* ])
            }

            /// Sets the counter of this name. Returns false when there is none, as in a file of
            /// another version.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $( stringify!($field) => { self.$field = value; true } )*
                    _ => false,
                }
            }

            /// Adds the values of `other`, each by its row's rule.
            pub fn merge(&mut self, other: &$name) {
                $( match $crate::counters::Merge::$merge {
                    $crate::counters::Merge::Sum => {
                        self.$field = self.$field.saturating_add(other.$field);
                    }
                    $crate::counters::Merge::Maximum => {
                        self.$field = self.$field.max(other.$field);
                    }
                } )*
            }
        }
    };
}
