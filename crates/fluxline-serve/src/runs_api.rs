//! The routes of a folder of runs. Nothing here changes state, so nothing needs the token.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;

use crate::answer::{Problem, blocking, json_text};
use crate::query::{Pairs, choice_of, number, text, zoom_of};
use crate::runs::{Library, Wanted};
use crate::web;

/// Most events of an answer.
const EVENTS_MAX: u64 = 500;

type Shared = State<Arc<Library>>;

/// Makes the routes.
pub fn routes(library: Arc<Library>) -> Router {
    web::routes()
        .route("/api/session", get(session))
        .route("/api/runs", get(list))
        .route("/api/runs/{id}/state", get(state))
        .route("/api/runs/{id}/events", get(events))
        .route("/api/runs/{id}/event", get(event))
        .route("/api/runs/{id}/signal", get(signal))
        .route("/api/runs/{id}/trace", get(trace))
        .with_state(library)
}

/// Tells the page that this is a folder of runs, which it does not control.
async fn session() -> Response {
    json_text(r#"{"operator":false,"runs":true}"#.to_owned())
}

async fn list(State(library): Shared) -> Result<Response, Problem> {
    blocking(move || library.list()).await
}

async fn state(State(library): Shared, Path(id): Path<String>) -> Result<Response, Problem> {
    blocking(move || library.run(&id)?.state()).await
}

async fn events(
    State(library): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let wanted = Wanted {
        from: number(&pairs, "from", 0)?,
        count: number(&pairs, "count", 100)?.clamp(1, EVENTS_MAX) as usize,
        incomplete: text(&pairs, "only") == "incomplete",
    };
    blocking(move || library.run(&id)?.events(wanted)).await
}

async fn event(
    State(library): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let event = number(&pairs, "number", 0)?;
    let packet = match text(&pairs, "packet") {
        "" => None,
        _ => Some(number(&pairs, "packet", 0)? as usize),
    };
    blocking(move || library.run(&id)?.event(event, packet)).await
}

async fn signal(
    State(library): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let (choice, from) = (choice_of(&pairs)?, number(&pairs, "from", 0)?);
    blocking(move || library.run(&id)?.signal(&choice, from)).await
}

async fn trace(
    State(library): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let (zoom, source) = (zoom_of(&pairs)?, number(&pairs, "source", 0)? as u32);
    let field = text(&pairs, "field").to_owned();
    blocking(move || library.run(&id)?.trace(source, &field, zoom)).await
}
