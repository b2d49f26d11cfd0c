//! The cores of the two sides of a benchmark.

use crate::Error;

/// The place of the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarSide {
    /// On this host: both sides need a core each.
    Here,
    /// On another host, or started by somebody else.
    Elsewhere,
}

/// Chooses the cores of near and far from those that this process may use. `asked` names none, the
/// near one, or both.
///
/// Errors: one core for two sides of this host.
pub fn choose(allowed: &[usize], asked: &[usize], far: FarSide) -> Result<[usize; 2], Error> {
    let [near, far_core] = match (asked, allowed) {
        ([near, far], _) => [*near, *far],
        ([near], [.., last]) => [*near, *last],
        (_, [first, second, ..]) => [*first, *second],
        (_, [only]) if far == FarSide::Elsewhere => [*only, *only],
        _ => {
            return Err(Error::Input(format!(
                "both sides on this host need two cores, and this process may use {allowed:?} \
                 only; allow it more (taskset, the container's cpuset)"
            )));
        }
    };
    if near == far_core && far == FarSide::Here {
        let problem = "the two sides need two different cores (--cores)";
        return Err(Error::Input(problem.to_owned()));
    }
    Ok([near, far_core])
}

/// Says on which cores both sides run.
#[must_use]
pub fn sentence([near, far_core]: [usize; 2], far: FarSide) -> String {
    match far {
        FarSide::Here => {
            format!("Both sides on this host: near on core {near}, far on core {far_core}")
        }
        FarSide::Elsewhere => {
            format!("Near on core {near}; far on the last core that it may use")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_of_one_host_have_two_cores() {
        let here = |allowed: &[usize], asked: &[usize]| choose(allowed, asked, FarSide::Here).ok();
        assert_eq!(here(&[2, 3, 5], &[]), Some([2, 3]));
        assert_eq!(here(&[2, 3, 5], &[3]), Some([3, 5]));
        assert_eq!(here(&[2, 3, 5], &[5, 2]), Some([5, 2]));
        assert_eq!(here(&[2, 3, 5], &[5]), None, "the last core for both");
        assert_eq!(here(&[2], &[]), None);
        assert_eq!(choose(&[2], &[], FarSide::Elsewhere).ok(), Some([2, 2]));
    }
}
