//! Sizes of an experiment: brokers, builders and disks, from rates that were measured.

/// Costs that the benchmarks measured. See docs/benchmarks.md for the machine.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Bytes of a packet.
    pub packet_bytes: f64,
    /// Bytes that the log adds to each packet.
    pub log_bytes: f64,
    /// Processor time of the readout node for a packet \[ns\].
    pub node_ns: f64,
    /// Processor time of a builder for a packet of its own \[ns\].
    pub builder_ns: f64,
    /// Processor time of a builder for a packet of another partition \[ns\].
    pub follow_ns: f64,
    /// Processor time of the client library to send 1 GB \[s\].
    pub send_s: f64,
    /// Processor time of the client library to receive 1 GB \[s\].
    pub receive_s: f64,
    /// Processor time of a broker to take and write 1 GB \[s\].
    pub broker_s: f64,
}

/// Share of a processor that a plan uses; the rest is for bursts.
const LOAD: f64 = 0.5;

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Number of readout machines.
    pub readouts: f64,
    /// Rate of each \[GB/s\].
    pub gigabytes: f64,
    /// Copies of each record.
    pub replicas: f64,
}

/// The sizes of everything.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Data of all readouts \[GB/s\].
    pub rate: f64,
    /// Written by all brokers \[GB/s\].
    pub written: f64,
    /// Packets of all readouts \[million/s\].
    pub packets: f64,
    /// Cores of each readout machine for node and client.
    pub readout_cores: f64,
    /// Cores of all brokers.
    pub broker_cores: f64,
    /// Cores of all builders; `None`: no number of builders follows this many packets.
    pub builder_cores: Option<f64>,
    /// Disk space for one hour of the log \[TB\].
    pub disk: f64,
}

impl Plan {
    /// Plans an experiment by costs.
    #[must_use]
    pub fn new(experiment: Experiment, costs: Costs) -> Plan {
        let Experiment { readouts, gigabytes, replicas } = experiment;
        let rate = readouts * gigabytes;
        let packets = rate * 1e9 / costs.packet_bytes;
        let logged = rate * (1.0 + costs.log_bytes / costs.packet_bytes);
        let of_node = packets * costs.node_ns / 1e9 + logged * costs.send_s;
        // Each builder follows all packets; the own ones are shared.
        let left = LOAD - packets * costs.follow_ns / 1e9;
        let own = packets * costs.builder_ns / 1e9 + logged * costs.receive_s;
        Plan {
            rate,
            written: logged * replicas,
            packets: packets / 1e6,
            readout_cores: (of_node / readouts / LOAD).ceil(),
            broker_cores: (logged * replicas * costs.broker_s / LOAD).ceil(),
            builder_cores: (left > 0.0).then(|| (own / left).ceil()),
            disk: logged * replicas * 3600.0 / 1000.0,
        }
    }
}

/// Returns a table in Markdown: a column for each plan.
#[must_use]
pub fn table(columns: &[(String, Plan)]) -> String {
    let heads: Vec<&str> = columns.iter().map(|column| column.0.as_str()).collect();
    let mut lines = vec![format!("| | {} |", heads.join(" | "))];
    lines.push(format!("|{}", " --- |".repeat(columns.len() + 1)));
    let whole = |value: f64| format!("{value:.0}");
    lines.push(row("data of all readouts [GB/s]", columns, |plan| format!("{:.1}", plan.rate)));
    lines.push(row("packets [million/s]", columns, |plan| format!("{:.2}", plan.packets)));
    lines.push(row("written by all brokers [GB/s]", columns, |plan| whole(plan.written)));
    lines.push(row("disk for one hour [TB]", columns, |plan| whole(plan.disk)));
    lines.push(row("cores of each readout machine", columns, |plan| whole(plan.readout_cores)));
    lines.push(row("cores of all brokers", columns, |plan| whole(plan.broker_cores)));
    lines.push(row("cores of all builders, one partition each", columns, |plan| {
        plan.builder_cores.map_or("none".to_owned(), whole)
    }));
    lines.join("\n") + "\n"
}

fn row(name: &str, columns: &[(String, Plan)], cell: impl Fn(&Plan) -> String) -> String {
    let cells: Vec<String> = columns.iter().map(|column| cell(&column.1)).collect();
    format!("| {name} | {} |", cells.join(" | "))
}

/// Costs with packets of 8,032 bytes, four readout nodes and 16 partitions, as in
/// docs/benchmarks.md. The cost of the broker is that of a record taken and read once.
pub const LARGE: Costs = Costs {
    packet_bytes: 8032.0,
    log_bytes: 77.0,
    node_ns: 1928.0,
    builder_ns: 4177.0,
    follow_ns: 75.0,
    send_s: 1.2,
    receive_s: 0.4,
    broker_s: 3.9,
};

/// Costs with packets of 1,032 bytes, otherwise as [`LARGE`].
pub const SMALL: Costs = Costs {
    packet_bytes: 1032.0,
    log_bytes: 76.0,
    node_ns: 600.0,
    builder_ns: 700.0,
    follow_ns: 68.0,
    ..LARGE
};

/// Returns the table of docs/kafka.md: links of 10 Gb/s, full, and three replicas.
#[must_use]
pub fn table_of_docs() -> String {
    let mut columns = Vec::new();
    for readouts in [10.0, 100.0] {
        for (bytes, costs) in [("8 KB", LARGE), ("1 KB", SMALL)] {
            let experiment = Experiment { readouts, gigabytes: 1.25, replicas: 3.0 };
            columns.push((format!("{readouts} × {bytes}"), Plan::new(experiment, costs)));
        }
    }
    table(&columns)
}
