//! Reads all batches of a table and prints the seconds: the Rust rate beside that of Python.
//!
//! Called by `tools/python/bench.py`: `read_batches RUN TABLE`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use fluxline_daq::record::Join;
use fluxline_export::typed::{Selection, TypedRun};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(run), Some(table)) = (arguments.next(), arguments.next()) else {
        return Err("give a run folder and the name of a table".into());
    };
    let began = Instant::now();
    let mut rows = 0;
    for batch in TypedRun::open(run.as_ref(), Join::Late)?.batches(&table, &Selection::default())? {
        rows += black_box(batch?).num_rows();
    }
    println!("{} s for {rows} rows", began.elapsed().as_secs_f64());
    Ok(())
}
