//! The routes of a folder of runs. Tags and comments need the token; nothing else is changed.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRef, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use fluxline_daq::record::{Author, Mark};
use serde_json::{Value, json};

use crate::answer::{Problem, blocking, json_text};
use crate::api::session_of;
use crate::guard::Guard;
use crate::query::{Pairs, choice_of, number, points, source_of, text, zoom_of};
use crate::runs::{Library, Wanted};
use crate::web;

/// Most events of an answer.
const EVENTS_MAX: u64 = 500;

/// The author of marks without another name.
const AUTHOR: &str = "page";

/// State that the routes share.
#[derive(Clone)]
pub struct RunsSite {
    pub library: Arc<Library>,
    pub guard: Arc<Guard>,
}

impl FromRef<RunsSite> for Arc<Library> {
    fn from_ref(site: &RunsSite) -> Arc<Library> {
        site.library.clone()
    }
}

type Shared = State<Arc<Library>>;

/// The routes of a folder of runs.
fn table() -> [(&'static str, MethodRouter<RunsSite>); 10] {
    [
        ("/api/session", get(session).post(log_in)),
        ("/api/runs", get(list)),
        ("/api/runs/{id}/state", get(state)),
        ("/api/runs/{id}/marks", post(mark)),
        ("/api/runs/{id}/events", get(events)),
        ("/api/runs/{id}/event", get(event)),
        ("/api/runs/{id}/history", get(history)),
        ("/api/runs/{id}/signal", get(signal)),
        ("/api/runs/{id}/trace", get(trace)),
        ("/api/runs/{id}/plots", get(plots)),
    ]
}

/// Returns the paths of pages over run folders, without those of their files; `{id}` is the name of
/// a run.
#[must_use]
pub fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

/// Makes the routes.
pub fn routes(site: RunsSite) -> Router {
    let add = |router: Router<RunsSite>, (path, method)| router.route(path, method);
    table().into_iter().fold(web::routes(), add).with_state(site)
}

/// Tells the page that this is a folder of runs, and whether it may mark them.
async fn session(State(site): State<RunsSite>, headers: HeaderMap) -> Response {
    let operator = site.guard.is_operator(&headers);
    json_text(json!({ "operator": operator, "runs": true }).to_string())
}

async fn log_in(
    State(site): State<RunsSite>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    session_of(&site.guard, &headers, &body)
}

/// Adds a tag or a comment to a run, or removes a tag.
async fn mark(
    State(site): State<RunsSite>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    site.guard.check_command(&headers)?;
    let wanted: Value = serde_json::from_slice(&body).unwrap_or_default();
    let of = |key: &str| wanted[key].as_str().map(str::to_owned);
    let comment = || of("comment").map(|text| Mark::Comment(text.trim_end().to_owned()));
    let mark = of("tag").map(Mark::Tag).or_else(|| of("untag").map(Mark::Untag)).or_else(comment);
    let mark = mark.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, WANTED))?;
    let user = of("user").filter(|user| !user.trim().is_empty());
    let now_ns = fluxline::clock::now().as_ns();
    let author = Author::new(user.as_deref().unwrap_or(AUTHOR), now_ns);
    blocking(move || -> Result<Value, Problem> { Ok(site.library.mark(&id, &author, mark)??) })
        .await
}

const WANTED: &str = "the request must be {\"tag\": \"calibration\"}, {\"untag\": \"calibration\"} \
                      or {\"comment\": \"text\"}; `user` names the author.";

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

async fn plots(State(library): Shared, Path(id): Path<String>) -> Result<Response, Problem> {
    blocking(move || library.run(&id)?.plots()).await
}
