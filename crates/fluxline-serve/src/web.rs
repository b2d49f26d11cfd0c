//! The files of the page, part of the program: it needs no network and no folder.

/// A file of the page.
pub struct Asset {
    /// Its path.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All files. uPlot (MIT) is the distribution of its package, version 1.6.32: see web/README.md.
pub const ASSETS: [Asset; 5] = [
    Asset {
        path: "/",
        media_type: "text/html; charset=utf-8",
        text: include_str!("../web/index.html"),
    },
    Asset {
        path: "/page.js",
        media_type: "text/javascript; charset=utf-8",
        text: include_str!("../web/page.js"),
    },
    Asset {
        path: "/page.css",
        media_type: "text/css; charset=utf-8",
        text: include_str!("../web/page.css"),
    },
    Asset {
        path: "/uplot.js",
        media_type: "text/javascript; charset=utf-8",
        text: include_str!("../web/uplot/uPlot.iife.min.js"),
    },
    Asset {
        path: "/uplot.css",
        media_type: "text/css; charset=utf-8",
        text: include_str!("../web/uplot/uPlot.min.css"),
    },
];
