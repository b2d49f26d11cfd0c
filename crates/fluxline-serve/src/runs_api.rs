//! The routes of a folder of runs. Nothing here changes state, so nothing needs the token.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};

use crate::answer::{Problem, blocking, json_text};
use crate::query::{Pairs, choice_of, number, points, source_of, text, zoom_of};
use crate::runs::{Library, Wanted};
use crate::web;

/// Most events of an answer.
const EVENTS_MAX: u64 = 500;

type Shared = State<Arc<Library>>;

/// The routes of a folder of runs.
fn table() -> [(&'static str, MethodRouter<Arc<Library>>); 8] {
    [
        ("/api/session", get(session)),
        ("/api/runs", get(list)),
        ("/api/runs/{id}/state", get(state)),
        ("/api/runs/{id}/events", get(events)),
        ("/api/runs/{id}/event", get(event)),
        ("/api/runs/{id}/history", get(history)),
        ("/api/runs/{id}/signal", get(signal)),
        ("/api/runs/{id}/trace", get(trace)),
    ]
}

/// Returns the paths of pages over run folders, without those of their files; `{id}` is the name of
/// a run.
#[must_use]
pub fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

/// Makes the routes.
pub fn routes(library: Arc<Library>) -> Router {
    let add = |router: Router<Arc<Library>>, (path, method)| router.route(path, method);
    table().into_iter().fold(web::routes(), add).with_state(library)
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

/// A part of the curves of a run: from a tick of a second, to before another.
async fn history(
    State(library): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let (from, to) = (number(&pairs, "from", 0)?, number(&pairs, "to", u64::MAX)?);
    let points = points(&pairs)?;
    blocking(move || library.run(&id)?.history(from, to, points)).await
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
    let (zoom, source) = (zoom_of(&pairs)?, source_of(&pairs)?);
    let field = text(&pairs, "field").to_owned();
    blocking(move || library.run(&id)?.trace(source, &field, zoom)).await
}
