//! A smaller case that breaks the same law: one size or fault less at a time, as long as it still
//! does.

use super::case::Case;

/// Most runs that a search makes.
pub const TRIES_MAX: usize = 150;

/// Returns the smallest case that was found; `breaks` runs one and says if it breaks the same law.
pub fn shrink(case: &Case, mut breaks: impl FnMut(&Case) -> bool) -> Case {
    let (mut smallest, mut tries) = (case.clone(), 0);
    loop {
        let mut next = None;
        for smaller in smaller_than(&smallest) {
            if tries == TRIES_MAX {
                return smallest;
            }
            tries += 1;
            if breaks(&smaller) {
                next = Some(smaller);
                break;
            }
        }
        match next {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

/// Returns cases that are smaller in one respect, the largest steps first.
fn smaller_than(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    let usual = Case::default();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        if smaller != *case {
            out.push(smaller);
        }
    };
    add(&|of| of.faults.clear());
    add(&|of| of.disk.clear());
    let faults: Vec<&str> = case.faults.split(',').collect();
    for number in 0..faults.len() {
        let kept = faults.iter().enumerate().filter(|(other, _)| *other != number);
        let kept: Vec<&str> = kept.map(|(_, fault)| *fault).collect();
        add(&|of| of.faults = kept.join(","));
    }
    let chances: [fn(&mut Case) -> &mut f64; 8] = [
        |of| &mut of.loss,
        |of| &mut of.bits,
        |of| &mut of.drop,
        |of| &mut of.duplicate,
        |of| &mut of.reorder,
        |of| &mut of.corrupt,
        |of| &mut of.stall,
        |of| &mut of.restart,
    ];
    for chance in chances {
        add(&|of| *chance(of) = 0.0);
    }
    add(&|of| of.late_ms = 0);
    add(&|of| of.stall_ms = usual.stall_ms);
    add(&|of| of.bytes_max = usual.bytes_max);
    add(&|of| of.payload = usual.payload);
    add(&|of| of.readout_ns = 0);
    add(&|of| of.builder_ns = 0);
    add(&|of| of.builders = 1);
    add(&|of| of.readouts = 1);
    add(&|of| of.boards = 1);
    add(&|of| of.readouts = (of.readouts - 1).max(1));
    add(&|of| of.sources = of.readouts);
    add(&|of| of.sources = (of.sources - 1).max(of.readouts));
    add(&|of| of.builders = (of.builders - 1).max(1));
    add(&|of| of.boards = (of.boards - 1).max(1));
    for part in [8, 4, 2] {
        add(&|of| of.packets = (of.packets / part).max(1));
    }
    add(&|of| of.packets -= of.packets / 4);
    add(&|of| of.keep_bytes = usual.keep_bytes);
    add(&|of| of.batch_bytes = usual.batch_bytes);
    add(&|of| of.record_us = usual.record_us);
    // A case whose faults name nodes that it no longer has is another case.
    out.retain(has_its_nodes);
    out
}

fn has_its_nodes(case: &Case) -> bool {
    case.node_faults().iter().all(|fault| {
        let (kind, number) = fault.node.split_once('-').unwrap_or((&fault.node, ""));
        let count = match kind {
            "builder" => case.builders,
            "readout" => case.readouts,
            _ => case.sources,
        };
        number.parse().is_ok_and(|number: u32| number < count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_case_keeps_what_the_failure_does_not_need() {
        let case = Case {
            readouts: 3,
            builders: 3,
            sources: 3,
            boards: 2,
            packets: 150,
            drop: 0.03,
            reorder: 0.05,
            faults: "host:builder-2@9ms,host:readout-1@30ms".to_owned(),
            disk: "full:20000".to_owned(),
            ..Case::default()
        };
        // It needs the death of readout-1, reordering, and more than 20 packets.
        let small = shrink(&case, |of| {
            of.faults.contains("readout-1") && of.reorder > 0.0 && of.packets > 20
        });
        let expected = "boards=1";
        assert_eq!(small.boards, 1, "{expected}");
        assert_eq!((small.builders, small.readouts, small.sources), (1, 2, 2));
        assert_eq!((small.drop, small.disk.as_str()), (0.0, ""));
        assert_eq!(small.faults, "host:readout-1@30ms");
        assert!((21..=28).contains(&small.packets), "{small}");
    }

    #[test]
    fn a_case_loses_a_node_that_its_faults_name() {
        let case = Case { builders: 2, faults: "host:builder-1@1ms".into(), ..Case::default() };
        assert!(smaller_than(&case).iter().all(|of| of.faults.is_empty() || of.builders == 2));
    }
}
