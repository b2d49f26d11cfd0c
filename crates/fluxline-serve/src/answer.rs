//! Answers as JSON: of values, of files, and refusals with a sentence.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fluxline_daq::record::MarkError;
use fluxline_run::Refused;
use serde_json::{Value, json};

use crate::contained::contain;
use crate::guard::Denied;
use crate::runs::NotThere;

/// Answers from files, in a thread of its own: other requests go on meanwhile.
pub async fn blocking<E: Into<Problem> + Send + 'static>(
    work: impl FnOnce() -> Result<Value, E> + Send + 'static,
) -> Result<Response, Problem> {
    let answer = tokio::task::spawn_blocking(|| contain(work)).await.ok().flatten();
    let document = answer.ok_or_else(Problem::broken)?.map_err(Into::into)?;
    Ok(json_text(document.to_string()))
}

/// A request that is not answered: its status and the reason in a sentence.
pub struct Problem {
    status: StatusCode,
    sentence: String,
}

impl Problem {
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Problem {
        Problem { status, sentence: sentence.into() }
    }

    /// The server has a fault.
    pub fn broken() -> Problem {
        let sentence = "this answer failed by a fault of the program; the run goes on.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        let status = match denied {
            Denied::Token => StatusCode::UNAUTHORIZED,
            Denied::Host | Denied::Origin => StatusCode::FORBIDDEN,
            Denied::Hosts => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, denied.sentence())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        Problem::new(StatusCode::CONFLICT, refused.to_string())
    }
}

impl From<MarkError> for Problem {
    fn from(error: MarkError) -> Problem {
        Problem::new(StatusCode::CONFLICT, error.to_string())
    }
}

impl From<NotThere> for Problem {
    fn from(NotThere(sentence): NotThere) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, sentence)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json_text(json!({ "error": self.sentence }).to_string());
        (self.status, body).into_response()
    }
}

pub fn json_text(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
