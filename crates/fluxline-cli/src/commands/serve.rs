//! `fluxline serve`: a page over a folder of runs.

use fluxline_serve::{Listening, Server, ServerConfig};
use serde_json::json;

use crate::failure::Failure;
use crate::page_arguments::ServeRunsArguments;
use crate::served;

/// Serves until Ctrl-C.
pub fn serve(arguments: &ServeRunsArguments, json: bool) -> Result<(), Failure> {
    let stop = fluxline_run::Stop::on_signal(crate::output::ended_at_once);
    let config = ServerConfig::at(arguments.listen).with_hosts(&arguments.host);
    let listening = Listening::on(&config).map_err(served::failure)?;
    let server = Server::start_runs(listening, &arguments.folder).map_err(served::failure)?;
    if json {
        super::print_json(&json!({ "page": server.address(), "url": server.url() }));
    } else {
        crate::say!("page     {}", server.url());
    }
    served::wait(&stop);
    Ok(())
}
