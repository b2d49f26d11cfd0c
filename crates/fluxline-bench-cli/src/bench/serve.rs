//! `fluxline bench --serve`: serves as the far side of a benchmark.

use std::net::SocketAddr;

use fluxline_bench::host;
use fluxline_bench::real::{KEY_VARIABLE, ServeError, Server, Until};

use crate::bench_arguments::BenchArguments;
use crate::failure::Failure;
use crate::say;
use fluxline_run::Stop;

/// Serves until Ctrl-C, or one benchmark. The address is the last word of the first message, where
/// a near side that started this process reads it.
pub fn serve(address: SocketAddr, arguments: &BenchArguments, stop: &Stop) -> Result<(), Failure> {
    let of_parent = std::env::var(KEY_VARIABLE).ok();
    let is_child = of_parent.is_some();
    let key = match arguments.key.clone().or(of_parent) {
        Some(key) => key,
        None => host::random_key().map_err(|error| Failure::failed(format!("{error}.")))?,
    };
    let server = Server::bind(address, &key).map_err(failure)?;
    let address = server.address();
    if is_child {
        say!("{address}");
    } else {
        say!(
            "Serving. There: fluxline bench udp://{} --peer {address} --key {key}\n\
             Anybody with the key may use this host's network and processors. \
             Listening on {address}",
            address.ip()
        );
    }
    let report = |how: &str| {
        if !is_child {
            say!("{how}");
        }
    };
    let until = if arguments.once { Until::FirstEnds } else { Until::Stopped };
    server.serve(until, &fluxline_bench::Stop::on(stop.flag()), &report).map_err(failure)
}

fn failure(error: ServeError) -> Failure {
    Failure::link(format_args!("{error}."))
}
