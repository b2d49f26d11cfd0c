//! The descriptions that come with the program: the text of every file in `formats/`.

use super::nearest as nearest_of;

/// Name and text of each shipped description, by name.
const SHIPPED: &[(&str, &str)] = &[
    ("counter", include_str!("../../../../formats/counter.toml")),
];

/// The text of the shipped description of that name.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// Names of all shipped descriptions.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The shipped name that is most like `name`, where one is like it at all.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    nearest_of(name, names())
}
