//! The secret that permits run control, and the sessions of browsers that showed it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Sessions that are open at a time; the oldest ends when one more begins.
const SESSIONS_MAX: usize = 64;

/// A secret of 128 bits, as 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    /// Hides the secret, so that no log has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Draws a token.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn draw() -> std::io::Result<Token> {
        let bytes = fluxline::host::random_bytes()?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares with a shown token, in a time that does not depend on where they differ.
    #[must_use]
    pub fn is(&self, shown: &str) -> bool {
        let differ = self.0.bytes().zip(shown.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == shown.len() && differ == 0
    }
}

/// The token of a server and the sessions that it began. Clones are the same one: servers that
/// follow one another at one address know the operators of those before.
#[derive(Clone, Debug)]
pub struct Access {
    /// The token.
    pub token: Token,
    /// The sessions.
    pub sessions: Arc<Sessions>,
}

impl Access {
    /// Draws a token that nobody has shown yet.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn draw() -> std::io::Result<Access> {
        Ok(Access { token: Token::draw()?, sessions: Arc::default() })
    }
}

/// The sessions of browsers that have logged in.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<VecDeque<Token>>);

impl Sessions {
    /// Begins a session; returns its secret, for a cookie.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn begin(&self) -> std::io::Result<Token> {
        let session = Token::draw()?;
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() == SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(session.clone());
        Ok(session)
    }

    /// Returns true when a session has this secret.
    pub fn has(&self, shown: &str) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().any(|session| session.is(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_alone_and_its_debug_text_hides_it() {
        let (token, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        assert!(token.is(token.as_str()) && !token.is(other.as_str()));
        assert!(!token.is("") && !token.is(&token.as_str()[..31]));
        assert!(!token.is(&format!("{}0", token.as_str())));
        assert!(!format!("{token:?}").contains(token.as_str()));
    }

    #[test]
    fn the_oldest_session_ends_when_there_are_too_many() {
        let sessions = Sessions::default();
        let all: Vec<Token> = (0..=SESSIONS_MAX).map(|_| sessions.begin().unwrap()).collect();
        assert!(!sessions.has(all[0].as_str()));
        assert!(all[1..].iter().all(|session| sessions.has(session.as_str())));
    }
}
