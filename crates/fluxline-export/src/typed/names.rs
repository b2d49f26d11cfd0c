//! Unique names of columns: fields keep theirs, common columns give way.

use std::collections::BTreeSet;

/// The names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Takes the first of `wishes` that is free, else the last with underscores behind it.
    pub fn take<const N: usize>(&mut self, wishes: [String; N]) -> String {
        let mut last = String::new();
        for wish in wishes {
            if self.0.insert(wish.clone()) {
                return wish;
            }
            last = wish;
        }
        while !self.0.insert(last.clone()) {
            last.push('_');
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn each_wish_is_granted_once() {
        let mut names = Names::default();
        let mut take = |wishes: [&str; 2]| names.take(wishes.map(str::to_owned));
        assert_eq!(take(["time", "packet_time"]), "time");
        assert_eq!(take(["time", "packet_time"]), "packet_time");
        assert_eq!(take(["time", "packet_time"]), "packet_time_");
        assert_eq!(take(["time", "packet_time"]), "packet_time__");
    }
}
