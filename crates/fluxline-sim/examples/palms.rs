//! A managed 4 x 4 torus under load: a cable is cut and repaired, a host crashes, a node loses its
//! power, and the node of the manager dies.
//!
//! Prints the time until the manager knows, the time until all nodes have new routes, and the fate
//! of every message. Then the time to explore networks, and deadlocks under free source routing.
//! docs/simulation/manager.md has the tables.
//!
//! ```sh
//! cargo run --release -p fluxline-sim --example palms
//! ```

use fluxline_sim::net::atoll::manager::trial::{Blow, Delivery, SendEnd, Traffic, Trial};
use fluxline_sim::net::atoll::manager::{Algorithm, Event, Settings, Switch};
use fluxline_sim::net::atoll::{Config, ConfigError, Grid, Wiring};
use fluxline_sim::{Duration, Instant};

/// Each fault is given this time.
const PHASE: Duration = Duration::from_us(30_000);
/// Torus and seeds of each algorithm.
const SEEDS: u64 = 5;

fn main() -> Result<(), ConfigError> {
    faults()?;
    exploration()?;
    deadlocks()
}

fn us(span: Duration) -> f64 {
    span.as_us()
}

/// The consequences of one fault.
#[derive(Default)]
struct Row {
    detected: Vec<f64>,
    routed: Vec<f64>,
    switches: Vec<Switch>,
    messages: usize,
    delayed: usize,
    longest: f64,
    lost: usize,
    doubled: usize,
    unreachable: usize,
}

fn faults() -> Result<(), ConfigError> {
    println!("4 x 4 torus, 256 bytes, 43 MB/s from each node, {SEEDS} seeds");
    println!(
        "| routes | fault | manager knows [us] | new routes [us] | switch | messages | delayed | \
         longest [us] | lost | doubled | unreachable |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, algorithm) in [("up*/down*", Algorithm::UpDown), ("Nue", Algorithm::Nue)] {
        let blows = [
            ("cable cut", Blow::Cut { node: 5, port: 0 }),
            ("cable repaired", Blow::Repair { node: 5, port: 0 }),
            ("node without power", Blow::Power(10)),
            ("host crashed", Blow::Host(3)),
            ("manager's node dead", Blow::Power(0)),
        ];
        let mut rows: Vec<Row> = blows.iter().map(|_| Row::default()).collect();
        for seed in 0..SEEDS {
            course(seed, algorithm, &blows.map(|(_, blow)| blow), &mut rows)?;
        }
        for ((fault, _), row) in blows.iter().zip(rows) {
            print_row(name, fault, &row);
        }
    }
    Ok(())
}

fn print_row(name: &str, fault: &str, row: &Row) {
    let range = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        format!("{least:.0} to {most:.0}")
    };
    let running = row.switches.iter().filter(|&&switch| switch == Switch::Running).count();
    let stopped = row.switches.len() - running;
    println!(
        "| {name} | {fault} | {} | {} | {running} running, {stopped} stopped | {} | {} | {:.0} | \
         {} | {} | {} |",
        range(&row.detected),
        range(&row.routed),
        row.messages,
        row.delayed,
        row.longest,
        row.lost,
        row.doubled,
        row.unreachable,
    );
}

/// Runs all faults one after the other, and adds their consequences to the rows.
fn course(
    seed: u64,
    algorithm: Algorithm,
    blows: &[Blow],
    rows: &mut [Row],
) -> Result<(), ConfigError> {
    let wiring = Wiring::grid(Grid { columns: 4, rows: 4, is_torus: true })?;
    let settings = Settings { algorithm, ..Settings::default() };
    let traffic = Traffic { bytes: 256, every: Duration::from_us(6), seed };
    let mut trial = Trial::new(Config::new(wiring), settings, traffic)?;
    trial.settle(Duration::from_us(20_000));
    trial.begin_sending();
    trial.run_for(PHASE);
    let usual = trial.deliveries().iter().filter_map(latency).fold(0.0, f64::max);
    let mut began: Vec<Instant> = Vec::new();
    for &blow in blows {
        began.push(trial.now());
        trial.strike(blow);
        trial.run_for(PHASE);
    }
    trial.end_sending();
    trial.finish(Duration::from_us(900_000));
    for (row, (index, &at)) in rows.iter_mut().zip(began.iter().enumerate()) {
        let end = began.get(index + 1).copied().unwrap_or(Instant::NEVER);
        note_manager(&trial, at, end, row);
    }
    let dead: Vec<u32> = blows.iter().filter_map(victim).collect();
    for of in trial.deliveries() {
        // A message counts for the last fault that it met, or for the one before its departure.
        let over = match of.end {
            Some(SendEnd::Lost(at)) => at,
            _ => of.arrived_at.unwrap_or(Instant::NEVER),
        };
        let index = began.partition_point(|&at| at <= over);
        if let Some(index) = index.checked_sub(1) {
            note_message(of, &dead, usual, &mut rows[index]);
        }
    }
    Ok(())
}

fn victim(blow: &Blow) -> Option<u32> {
    match blow {
        Blow::Host(node) | Blow::Power(node) => Some(*node),
        Blow::Cut { .. } | Blow::Repair { .. } => None,
    }
}

fn latency(of: &Delivery) -> Option<f64> {
    of.arrived_at.map(|at| us(at.since(of.sent_at)))
}

/// Notes when the manager knew of a fault, and when all nodes had new routes.
fn note_manager(trial: &Trial, at: Instant, end: Instant, row: &mut Row) {
    let log = || trial.network.log().filter(|of| of.at >= at && of.at < end);
    let knows = |event: &Event| matches!(event, Event::News(_) | Event::Began);
    let known = log().find(|of| knows(&of.event)).map(|of| of.at);
    row.detected.extend(known.map(|known| us(known.since(at))));
    let mut all = log().filter_map(|of| match of.event {
        Event::Installed { switch, .. } => Some((of.at, switch)),
        _ => None,
    });
    if let Some((installed, switch)) = all.next_back() {
        row.routed.push(us(installed.since(at)));
        row.switches.push(switch);
    }
}

/// Notes the fate of a message. Messages from and to dead nodes may end without arrival.
fn note_message(of: &Delivery, dead: &[u32], usual: f64, row: &mut Row) {
    row.messages += 1;
    row.doubled += usize::from(of.arrivals > 1);
    let is_of_dead = dead.contains(&of.from) || dead.contains(&of.to);
    match (of.end, latency(of)) {
        (Some(SendEnd::Done), Some(took)) => {
            if took > usual {
                row.delayed += 1;
                row.longest = row.longest.max(took);
            }
        }
        _ if is_of_dead && of.end.is_some() => row.unreachable += 1,
        _ => row.lost += 1,
    }
}

fn exploration() -> Result<(), ConfigError> {
    println!("\n| torus | probes | explored [ms] | routes everywhere [ms] | letters | bytes |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for side in [2, 4, 8, 16] {
        let wiring = Wiring::grid(Grid { columns: side, rows: side, is_torus: true })?;
        let traffic = Traffic { bytes: 0, every: Duration::from_us(1), seed: 1 };
        let mut trial = Trial::new(Config::new(wiring), Settings::default(), traffic)?;
        trial.settle(Duration::from_us(1_000_000));
        let (mut explored, mut installed, mut probes) = (0.0, 0.0, 0);
        for record in trial.network.log() {
            let at = us(record.at.since(Instant::START)) / 1000.0;
            match record.event {
                Event::Explored { probes: count, .. } => (explored, probes) = (at, count),
                Event::Installed { .. } => installed = at,
                _ => {}
            }
        }
        let counts = trial.network.management();
        println!(
            "| {side} x {side} | {probes} | {explored:.2} | {installed:.2} | {} | {} |",
            counts.letters, counts.letter_bytes
        );
    }
    Ok(())
}

fn deadlocks() -> Result<(), ConfigError> {
    println!(
        "\n4 x 4 torus, free source routing (shortest paths), 2000 bytes, 50 ms, {SEEDS} seeds"
    );
    println!(
        "| MB/s a node | messages | deadlocks | true alarms | behind a circle | false | removed | \
         repeated | lost | doubled | detection, mean (longest) [us] |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for every in [100, 50, 25] {
        let (mut total, mut all, mut lost, mut doubled) = (Sum::default(), 0, 0, 0);
        for seed in 0..SEEDS {
            let wiring = Wiring::grid(Grid { columns: 4, rows: 4, is_torus: true })?;
            let settings = Settings { algorithm: Algorithm::Shortest, ..Settings::default() };
            let traffic = Traffic { bytes: 2000, every: Duration::from_us(every), seed };
            let mut trial = Trial::new(Config::new(wiring), settings, traffic)?;
            trial.settle(Duration::from_us(20_000));
            trial.begin_sending();
            trial.run_for(Duration::from_us(50_000));
            trial.end_sending();
            trial.finish(Duration::from_us(900_000));
            total.add(&trial);
            all += trial.deliveries().len();
            let is_lost = |of: &&Delivery| of.end != Some(SendEnd::Done);
            lost += trial.deliveries().iter().filter(is_lost).count();
            doubled += trial.deliveries().iter().filter(|of| of.arrivals > 1).count();
        }
        println!(
            "| {} | {all} | {} | {} | {} | {} | {} | {} | {lost} | {doubled} | {:.0} ({:.0}) |",
            2000 / every,
            total.deadlocks,
            total.alarms_true,
            total.alarms_behind,
            total.alarms_false,
            total.removed,
            total.repeated,
            total.detection / total.detected.max(1) as f64,
            total.longest,
        );
    }
    Ok(())
}

/// Sums of counts over seeds.
#[derive(Default)]
struct Sum {
    deadlocks: u64,
    alarms_true: u64,
    alarms_behind: u64,
    alarms_false: u64,
    removed: u64,
    repeated: u64,
    detected: u64,
    detection: f64,
    longest: f64,
}

impl Sum {
    fn add(&mut self, trial: &Trial) {
        let counts = trial.network.management();
        self.deadlocks += counts.deadlocks;
        self.alarms_true += counts.alarms_true;
        self.alarms_behind += counts.alarms_behind;
        self.alarms_false += counts.alarms_false;
        self.removed += counts.removed;
        self.repeated += counts.repeated;
        self.detected += counts.detected;
        self.detection += us(counts.detection);
        self.longest = self.longest.max(us(counts.detection_max));
    }
}
