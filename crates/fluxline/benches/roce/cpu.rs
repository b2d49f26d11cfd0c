//! The core time that a process has used, user and system apart.

/// Time of the processor \[s\].
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// In the program.
    pub user: f64,
    /// In the kernel, for the program. What interrupts do on its core counts for whom they meet.
    pub system: f64,
}

impl Cpu {
    /// Of this process so far, in ticks of 10 ms. Source: proc(5), fields 14 and 15 of `stat`.
    pub fn now() -> Cpu {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The second field is a name in parentheses, which may have blanks.
        let rest = stat.rsplit(") ").next().unwrap_or("");
        let ticks = |field: usize| -> f64 {
            rest.split(' ').nth(field - 3).and_then(|text| text.parse().ok()).unwrap_or(0.0)
        };
        Cpu { user: ticks(14) / 100.0, system: ticks(15) / 100.0 }
    }

    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { user: self.user - before.user, system: self.system - before.system }
    }
}
