//! Memory's side: the state of a line and the head of its list, updated by one table.
//!
//! Source: `MemoryTagFreshUpdate` of U. Stern's Murphi model of the SCI coherence protocol, 1994.

use super::message::{Answer, CacheId, MemoryCommand, MemoryState};

/// Memory's line. `D`: its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryLine<D> {
    /// The state.
    pub state: MemoryState,
    /// The head of the list, if there is one.
    pub head: Option<CacheId>,
    /// The bytes; valid unless the state is gone.
    pub data: D,
}

/// One field of the table: the new state of a line, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The new state.
    pub state: MemoryState,
    /// True if the requester (or the cache that it names) becomes head.
    pub new_head: bool,
    /// The answer.
    pub answer: Gives,
}

/// The answer of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// The line.
    Data,
    /// Status and the old head.
    Nothing,
    /// The command is refused.
    Null,
}

/// Looks up the effect of `command` on a line in `state`; `by_head` is true if the head asks.
#[must_use]
pub const fn update(command: MemoryCommand, state: MemoryState, by_head: bool) -> Update {
    use Gives::{Data, Nothing, Null};
    use MemoryCommand as C;
    use MemoryState::{Fresh, Gone, Home};
    let (state, new_head, answer) = match (command, state, by_head) {
        (C::CacheFresh, Home, _) => (Fresh, true, Data),
        (C::CacheFresh, Fresh, false) => (Fresh, true, Data),
        (C::CacheClean | C::CacheDirty, Home, _) => (Gone, true, Data),
        (C::CacheClean | C::CacheDirty, Fresh, false) => (Gone, true, Data),
        (C::AttachToList, Home, _) => (Home, false, Nothing),
        (C::AttachToList, Fresh, false) => (Fresh, true, Data),
        (C::AttachToGone, Home, _) => (Home, false, Data),
        (C::AttachToGone, Fresh, false) => (Fresh, false, Data),
        (
            C::CacheFresh | C::CacheClean | C::CacheDirty | C::AttachToList | C::AttachToGone,
            Gone,
            false,
        ) => (Gone, true, Nothing),
        (C::ListToGone, Fresh, true) => (Gone, false, Data),
        (C::ListToGone, Gone, true) => (Gone, false, Nothing),
        (C::ListToHome, Fresh, true) => (Home, false, Data),
        (C::ListToHome, Gone, true) => (Home, false, Nothing),
        (C::ListToFresh, Gone, true) => (Fresh, false, Data),
        (C::PassHead, Fresh, true) => (Fresh, true, Data),
        (C::PassHead, Gone, true) => (Gone, true, Nothing),
        (C::FreshToHome, Home, _) => (Home, false, Data),
        (C::FreshToHome, Fresh, false) => (Home, false, Data),
        (C::FreshToHome, Gone, false) => (Gone, true, Nothing),
        (_, state, _) => (state, false, Null),
    };
    Update { state, new_head, answer }
}

impl<D: Clone> MemoryLine<D> {
    /// Executes a request of `source`; `next` is the new head if it is not the requester, and
    /// `written` is the line that is written back.
    pub fn ask(
        &mut self,
        source: CacheId,
        command: MemoryCommand,
        next: Option<CacheId>,
        written: Option<D>,
    ) -> Answer<D> {
        let update = update(command, self.state, self.head == Some(source));
        if update.answer == Gives::Null {
            return Answer::null();
        }
        let data = (update.answer == Gives::Data).then(|| self.data.clone());
        let answer = Answer { nullified: false, found: Some(self.state), other: self.head, data };
        self.state = update.state;
        if update.new_head {
            self.head = Some(next.unwrap_or(source));
        }
        if self.state == MemoryState::Home {
            self.head = None;
        }
        if let Some(written) = written {
            self.data = written;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryCommand as C;
    use super::MemoryState::{Fresh, Gone, Home};
    use super::{Gives, MemoryState, Update, update};

    /// Parses a field in the notation of the source's table.
    fn field(text: &str, state: MemoryState) -> Update {
        let (state, rest) = match text.split_once("->") {
            Some((_, to)) if to.starts_with("GONE") => (Gone, to),
            Some((_, to)) if to.starts_with("HOME") => (Home, to),
            Some((_, to)) if to.starts_with("FRESH") => (Fresh, to),
            _ => (state, text),
        };
        let answer = match rest {
            rest if rest.contains("DATA") => Gives::Data,
            rest if rest.contains("NONE") => Gives::Nothing,
            _ => Gives::Null,
        };
        Update { state, new_head: rest.contains("forw"), answer }
    }

    #[test]
    fn memory_follows_the_table_field_by_field() {
        let rows = [
            (C::CacheFresh, ["->FRESH forw DATA", "forw DATA", "forw NONE", "NULL", "NULL"]),
            (C::CacheDirty, ["->GONE forw DATA", "->GONE forw DATA", "forw NONE", "NULL", "NULL"]),
            (C::CacheClean, ["->GONE forw DATA", "->GONE forw DATA", "forw NONE", "NULL", "NULL"]),
            (C::AttachToList, ["NONE", "forw DATA", "forw NONE", "NULL", "NULL"]),
            (C::AttachToGone, ["DATA", "DATA", "forw NONE", "NULL", "NULL"]),
            (C::ListToGone, ["NULL", "NULL", "NULL", "->GONE DATA", "NONE"]),
            (C::ListToHome, ["NULL", "NULL", "NULL", "->HOME DATA", "->HOME NONE"]),
            (C::ListToFresh, ["NULL", "NULL", "NULL", "NULL", "->FRESH DATA"]),
            (C::PassHead, ["NULL", "NULL", "NULL", "forw DATA", "forw NONE"]),
            (C::FreshToHome, ["DATA", "->HOME DATA", "forw NONE", "NULL", "NULL"]),
        ];
        let columns = [(Home, false), (Fresh, false), (Gone, false), (Fresh, true), (Gone, true)];
        for (command, fields) in rows {
            for ((state, by_head), text) in columns.into_iter().zip(fields) {
                let expected = field(text, state);
                assert_eq!(
                    update(command, state, by_head),
                    expected,
                    "{command:?} {state:?} {by_head}"
                );
            }
        }
    }
}
