//! The files of the page, part of the program: it needs no network and no folder.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;

/// A file of the page.
struct Asset {
    /// Its path.
    path: &'static str,
    /// Its text.
    text: &'static str,
}

macro_rules! assets {
    ($($path:literal is $file:literal;)*) => {
        /// All files. uPlot (MIT) is the distribution of its package, version 1.6.32: see
        /// web/README.md.
        const ASSETS: &[Asset] =
            &[$(Asset { path: $path, text: include_str!(concat!("../web/", $file)) }),*];
    };
}

assets! {
    "/" is "index.html";
    "/page.css" is "page.css";
    "/page.js" is "page.js";
    "/alarms.js" is "alarms.js";
    "/bytes.js" is "bytes.js";
    "/charts.js" is "charts.js";
    "/condition.js" is "condition.js";
    "/control.js" is "control.js";
    "/delays.js" is "delays.js";
    "/dom.js" is "dom.js";
    "/events.js" is "events.js";
    "/flow.js" is "flow.js";
    "/follow.js" is "follow.js";
    "/health.js" is "health.js";
    "/history.js" is "history.js";
    "/image.js" is "image.js";
    "/network.js" is "network.js";
    "/notes.js" is "notes.js";
    "/numbers.js" is "numbers.js";
    "/packet.js" is "packet.js";
    "/plots.js" is "plots.js";
    "/runs.js" is "runs.js";
    "/signal.js" is "signal.js";
    "/slow.js" is "slow.js";
    "/sound.js" is "sound.js";
    "/sources.js" is "sources.js";
    "/store.js" is "store.js";
    "/symbol.js" is "symbol.js";
    "/tiles.js" is "tiles.js";
    "/trace.js" is "trace.js";
    "/zero.js" is "zero.js";
    "/uplot.js" is "uplot/uPlot.iife.min.js";
    "/uplot.css" is "uplot/uPlot.min.css";
}

/// A page that does not change: the report or the map of a simulation.
#[derive(Clone, Debug)]
pub struct StaticPage {
    /// Its path: `/`, `/map`.
    pub path: String,
    /// Its text, HTML.
    pub html: String,
}

/// The policy of a page that does not change: its script is in the page itself, and it loads
/// nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Asset {
    fn media_type(&self) -> &'static str {
        match self.path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        }
    }
}

/// Makes the routes of the files.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let answer = move || async move { ([(CONTENT_TYPE, asset.media_type())], asset.text) };
        router.route(asset.path, get(answer))
    })
}

/// Makes the routes of pages that do not change.
pub fn static_pages(pages: Vec<StaticPage>) -> Router {
    pages.into_iter().fold(Router::new(), |router, StaticPage { path, html }| {
        let answer = move || {
            let html = html.clone();
            async move {
                let media_type = (CONTENT_TYPE, "text/html; charset=utf-8");
                ([media_type, (CONTENT_SECURITY_POLICY, POLICY)], html)
            }
        };
        router.route(&path, get(answer))
    })
}
