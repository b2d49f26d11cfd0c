//! Myrinet, QsNet and InfiniBand as links of programs: the suite of all links, URLs, faults.

use crate::support::pairs::{pair_of, put, put_during_a_fault};
use fluxline_conformance::Joined;
use fluxline_conformance::conformance;
use fluxline_core::fabric::Fabric;
use fluxline_core::fabric::{Status, Target};
use fluxline_sim::world::Cluster;

fn open(url: &str) -> Cluster {
    Cluster::open(url).expect("a right URL")
}

conformance!(on_myrinet, pair_of(&open("sim:myrinet?nodes=4")));
conformance!(on_a_clos_of_d_cards, pair_of(&open("sim:myrinet?nodes=20&card=D&bus=melody")));
conformance!(on_qsnet, pair_of(&open("sim:qsnet?nodes=3")));
conformance!(on_infiniband, pair_of(&open("sim:infiniband?nodes=3&rate=qdr")));
conformance!(
    on_infiniband_with_bit_errors,
    pair_of(&open("sim:infiniband?nodes=2&fault=bits:1e-6"))
);
conformance!(on_myrinet_with_bit_errors, pair_of(&open("sim:myrinet?nodes=2&fault=bits:1e-6")));

#[test]
fn puts_wait_for_a_repair_and_a_longer_silence_is_the_peer_s_end() {
    for (repair, expected) in [("0@20ms", Status::Done), ("0@900ms", Status::Flushed)] {
        let url = format!("sim:myrinet?nodes=3&fault=cable:0@5ms,repair:{repair}");
        put_during_a_fault(&open(&url), expected);
    }
}

#[test]
fn a_put_to_a_node_without_power_ends_as_flushed() {
    put_during_a_fault(&open("sim:myrinet?nodes=3&fault=power:1@5ms"), Status::Flushed);
}

#[test]
fn a_wrong_url_is_answered_with_one_sentence_that_says_what_to_write() {
    for (url, says) in [
        ("sim:myrinets", "sim:atoll, sim:myrinet"),
        ("sim:myrinet?", "its keys are nodes, card"),
        ("sim:myrinet?grid=4x4", "its keys are nodes, card"),
        ("sim:myrinet?nodes=1", "2 to 128"),
        ("sim:myrinet?nodes=129", "2 to 128"),
        ("sim:myrinet?nodes=4&nodes=4", "nodes is given twice"),
        ("sim:myrinet?card=F", "E, D or 2000"),
        ("sim:myrinet?bus=isa", "gc-le"),
        ("sim:myrinet?cable=-1", "0 to 1000 m"),
        ("sim:myrinet?cable=1e9", "0 to 1000 m"),
        ("sim:myrinet?seed=x", "a whole number"),
        ("sim:myrinet?fault=bits:1", "bits:1e-6"),
        ("sim:myrinet?fault=loss:0.1", "bits:1e-6"),
        ("sim:myrinet?fault=host:99@1ms", "nodes are 0 to 7"),
        ("sim:myrinet?fault=restart:3@1ms", "cannot start again"),
        ("sim:myrinet?fault=cut:3-4@1ms", "write cable:3@1ms"),
        ("sim:qsnet?card=E", "its keys are nodes, bus"),
        ("sim:qsnet?bus=usb", "gc-le"),
        ("sim:infiniband?rate=ndr", "sdr, ddr, qdr or fdr"),
        ("sim:infiniband?nodes=0", "2 to 128"),
        ("sim:infiniband/", "sim:infiniband"),
    ] {
        let error = Cluster::open(url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
    }
    for url in [
        "sim:myrinet",
        "sim:myrinet?card=2000&cable=1000",
        "sim:myrinet?nodes=128&bus=g5",
        "sim:qsnet?bus=melody",
        "sim:infiniband?rate=fdr&cable=100",
    ] {
        let cluster = Cluster::open(url).expect("a right URL");
        assert!(cluster.nodes() >= 8);
        assert_eq!(Some(cluster.node(0).capabilities().link), url.split('?').next());
    }
}

#[test]
fn a_run_repeats_with_its_seed() {
    let run = |seed| {
        let cluster = open(&format!("sim:myrinet?nodes=2&seed={seed}&fault=bits:1e-6"));
        let mut joined = Joined::new(pair_of(&cluster));
        let (_, remote) = joined.shared("samples", 1 << 18);
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 1, put(&[7; 1 << 18], to)).expect("room");
        assert_eq!(joined.done(1).1, Status::Done);
        cluster.fingerprint()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4), "other errors");
}
