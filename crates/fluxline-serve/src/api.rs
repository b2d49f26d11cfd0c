//! The routes: each checks who asks ([`crate::guard`]), then asks the hub.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use fluxline_run::{Command, Health, Refused};
use serde_json::{Value, json};

use crate::answer::{Problem, blocking, json_text};
use crate::connections::ArrivedAt;
use crate::contained::contain_future;
use crate::guard::{Guard, put_headers};
use crate::hub::{Hub, STREAMS_MAX, Stream};
use crate::query::{Pairs, choice_of, number, points, source_of, text, zoom_of};
use crate::{metrics, packet, web};

/// The longest body of a request \[byte\].
const BODY_BYTES_MAX: usize = 16 << 10;

/// State that the routes share.
#[derive(Clone)]
pub struct Site {
    pub hub: Arc<Hub>,
    pub guard: Arc<Guard>,
}

/// The routes of an acquisition.
fn table() -> [(&'static str, MethodRouter<Site>); 10] {
    [
        ("/api/state", get(state)),
        ("/api/events", get(events)),
        ("/api/history", get(history)),
        ("/api/packet", get(newest_packet)),
        ("/api/signal", get(signal)),
        ("/api/trace", get(trace)),
        ("/api/plots", get(plots)),
        ("/api/session", get(session).post(log_in)),
        ("/api/command", post(command)),
        ("/metrics", get(counters)),
    ]
}

/// Returns the paths of an acquisition's page, without those of its files.
#[must_use]
pub fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

/// Makes the routes of an acquisition.
pub fn routes(site: Site) -> Router {
    let add = |router: Router<Site>, (path, method)| router.route(path, method);
    table().into_iter().fold(web::routes(), add).with_state(site)
}

/// Adds the checks and headers of all requests, and the answer to paths that do not exist.
pub fn guarded(router: Router, guard: Arc<Guard>) -> Router {
    router
        .fallback(not_found)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, check))
}

/// Checks the host of every request, and adds the headers of every answer.
async fn check(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(ArrivedAt(at)): ConnectInfo<ArrivedAt>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let mut response = match guard.check_host(request.uri(), request.headers(), at) {
        Ok(()) => contain_future(next.run(request))
            .await
            .unwrap_or_else(|| Problem::broken().into_response()),
        Err(denied) => Problem::from(denied).into_response(),
    };
    put_headers(response.headers_mut());
    response
}

async fn state(State(site): State<Site>) -> Response {
    json_text(site.hub.look().to_string())
}

async fn events(State(site): State<Site>) -> Result<Response, Problem> {
    let Some(stream) = site.hub.stream() else {
        let sentence = format!("{STREAMS_MAX} pages are open already; close one.");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence));
    };
    Ok(Sse::new(events_of(stream)).keep_alive(KeepAlive::default()).into_response())
}

/// Turns snapshots into events; ends with the server.
fn events_of(stream: Stream) -> impl futures_core::Stream<Item = Result<Event, Infallible>> {
    futures_util::stream::unfold(stream, |mut stream| async move {
        let newest = stream.next().await?;
        Some((Ok(Event::default().data(newest.as_ref())), stream))
    })
}

/// A part of the history: from a tick, to before another, with a number of points.
async fn history(State(site): State<Site>, pairs: Pairs) -> Result<Response, Problem> {
    let from = number(&pairs, "from", 0)?;
    let to = number(&pairs, "to", u64::MAX)?;
    let points = points(&pairs)?;
    let part = site.hub.history(from, to, points).map_err(|ticks| {
        let sentence = format!("`from` is behind the newest tick, {ticks}.");
        Problem::new(StatusCode::BAD_REQUEST, sentence)
    })?;
    Ok(json_text(part.to_string()))
}

async fn newest_packet(State(site): State<Site>, pairs: Pairs) -> Result<Response, Problem> {
    let source = source_of(&pairs)?;
    let packet = packet::newest(site.hub.watcher(), source).ok_or_else(|| {
        let sentence = format!("source {source} has no packet in a closed event yet.");
        Problem::new(StatusCode::NOT_FOUND, sentence)
    })?;
    Ok(json_text(packet.to_string()))
}

async fn signal(State(site): State<Site>, pairs: Pairs) -> Result<Response, Problem> {
    let choice = choice_of(&pairs)?;
    Ok(json_text(site.hub.signal(&choice).to_string()))
}

/// A part of the trace of a field in the files of this run.
async fn trace(State(site): State<Site>, pairs: Pairs) -> Result<Response, Problem> {
    let (zoom, source) = (zoom_of(&pairs)?, source_of(&pairs)?);
    let field = text(&pairs, "field").to_owned();
    blocking(move || site.hub.recorded()?.trace(source, &field, zoom)).await
}

/// The plots over the whole run.
async fn plots(State(site): State<Site>) -> Result<Response, Problem> {
    blocking(move || -> Result<_, Problem> { Ok(site.hub.watcher().plots().document()) }).await
}

async fn session(State(site): State<Site>, headers: HeaderMap) -> Response {
    json_text(json!({ "operator": site.guard.is_operator(&headers) }).to_string())
}

async fn log_in(
    State(site): State<Site>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    session_of(&site.guard, &headers, &body)
}

/// Begins a session for a browser that shows the token in the body of its request.
pub fn session_of(guard: &Guard, headers: &HeaderMap, body: &[u8]) -> Result<Response, Problem> {
    let shown: Option<Value> = serde_json::from_slice(body).ok();
    let shown = shown.as_ref().and_then(|shown| shown["token"].as_str()).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "the request must be {\"token\": \"..\"}.")
    })?;
    let cookie = guard.log_in(headers, shown)?;
    let text = json!({ "operator": true }).to_string();
    Ok(([(SET_COOKIE, cookie)], json_text(text)).into_response())
}

/// Run control: `{"command": "pause"}`, `{"remark": "text"}`, `{"shot": 4711}`, and what
/// [`to_alarm`] takes.
async fn command(
    State(site): State<Site>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    site.guard.check_command(&headers)?;
    let wanted: Value = serde_json::from_slice(&body).unwrap_or_default();
    let control = site.hub.watcher().control();
    let now = fluxline::clock::now();
    if to_alarm(site.hub.watcher().health(), &wanted)? {
        site.hub.refresh();
        return Ok(json_text(json!({ "state": control.state().name() }).to_string()));
    }
    if let Some(shot) = wanted["shot"].as_u64() {
        control.set_shot(shot);
    } else if let Some(text) = wanted["remark"].as_str() {
        control.remark(text, now)?;
    } else {
        let command = wanted["command"].as_str().and_then(Command::of_name);
        let command = command.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, WANTED))?;
        control.command(command, now)?;
    }
    site.hub.refresh();
    Ok(json_text(json!({ "state": control.state().name() }).to_string()))
}

const WANTED: &str = "the request must be {\"command\": \"start\"} (or pause, resume, stop), \
                      {\"remark\": \"text\"}, {\"shot\": 4711}, {\"acknowledge\": \"ALARM\"}, \
                      {\"shelve\": \"ALARM\", \"minutes\": 30} or {\"unshelve\": \"ALARM\"}.";

/// Carries out a request that is about an alarm; false: it is about none.
fn to_alarm(health: &Health, wanted: &Value) -> Result<bool, Refused> {
    let now = fluxline::clock::now();
    if let Some(name) = wanted["acknowledge"].as_str() {
        health.acknowledge(name, now)?;
    } else if let Some(name) = wanted["shelve"].as_str() {
        health.shelve(name, wanted["minutes"].as_u64().unwrap_or(0), now)?;
    } else if let Some(name) = wanted["unshelve"].as_str() {
        health.unshelve(name, now)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

async fn counters(State(site): State<Site>) -> Result<Response, Problem> {
    let text = metrics::text(site.hub.watcher()).map_err(|_| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the counters cannot be written as text.")
    })?;
    Ok(([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response())
}

async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "this path does not exist; the page is at /.")
}
