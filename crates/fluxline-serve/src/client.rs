//! A client of a server: the state of a run, and commands to it.

use std::time::Duration;

use serde_json::Value;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read \[byte\].
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The reason why a request failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not one of a server.
    #[error("`{0}` is not the address of a run; write for example http://127.0.0.1:8040/#TOKEN.")]
    Address(String),
    /// The server does not answer.
    #[error("no answer from {address}: {reason}; the run may have ended.")]
    Silent {
        /// Its address.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// The server names another address.
    #[error(
        "{address} sends requests on to another address, which no run does; give the address \
        that the program printed."
    )]
    Redirected {
        /// Its address.
        address: String,
    },
    /// The server refused.
    #[error("{0}")]
    Refused(String),
}

/// A client with a token.
#[derive(Debug)]
pub struct Client {
    address: String,
    token: String,
    agent: ureq::Agent,
}

impl Client {
    /// Makes a client of an address as [`Server::url`](crate::Server::url) gives it; without the
    /// token it may only look.
    ///
    /// # Errors
    /// [`ClientError::Address`].
    pub fn new(url: &str) -> Result<Client, ClientError> {
        let (address, token) = url.split_once('#').unwrap_or((url, ""));
        let address = address.trim_end_matches('/');
        if !address.starts_with("http://") {
            return Err(ClientError::Address(address.to_owned()));
        }
        let config = ureq::Agent::config_builder();
        let config = config.timeout_global(Some(PATIENCE)).http_status_as_error(false).proxy(None);
        // An answer decides nothing about where the next request, with its token, goes.
        let config = config.max_redirects(0);
        Ok(Client {
            address: address.to_owned(),
            token: token.to_owned(),
            agent: config.build().new_agent(),
        })
    }

    /// Returns the newest snapshot of the run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn state(&self) -> Result<Value, ClientError> {
        let answer = self.agent.get(format!("{}/api/state", self.address)).call();
        self.read(answer)
    }

    /// Sends a request of run control: `{"command": "pause"}`.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Refused`] has the server's sentence.
    pub fn command(&self, request: &Value) -> Result<Value, ClientError> {
        let post = self.agent.post(format!("{}/api/command", self.address));
        let post = post.header("authorization", format!("Bearer {}", self.token));
        let post = post.header("content-type", "application/json");
        self.read(post.send(request.to_string()))
    }

    fn read(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, ClientError> {
        let silent = |reason: String| ClientError::Silent { address: self.address.clone(), reason };
        let mut answer = answer.map_err(|error| silent(error.to_string()))?;
        if answer.status().is_redirection() {
            return Err(ClientError::Redirected { address: self.address.clone() });
        }
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| silent(error.to_string()))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|_| silent("the answer is not from a run of fluxline".into()))?;
        match value["error"].as_str() {
            Some(sentence) => Err(ClientError::Refused(sentence.to_owned())),
            None => Ok(value),
        }
    }
}
