//! Forecasts of idles: ports know the coming idles ahead. A change of a forecast is passed on to
//! all ports that it affects, so that no idle needs an entry of its own.

use super::go::Go;
use super::port::What;
use super::ring::Rings;

impl Rings {
    /// Forecasts the idle behind the own packet, if other packets wait behind it.
    pub(super) fn settle_own_idle(&mut self, at: u32, now: u64) {
        let port = &mut self.ports[at as usize];
        let Some(clears) = port.clears.filter(|_| port.owes && now <= port.own_end) else { return };
        let idle = port.idle_behind_own(clears);
        if idle != port.own_idle {
            port.own_idle = idle;
            let before = port.own_end + 1;
            self.announce(at, before, idle, now);
        }
    }

    /// Passes on the forecast of the idles before the packet that goes out at `before`. All of them
    /// are in ticks after `now`, and no port has seen them.
    pub(super) fn announce(&mut self, at: u32, before: u64, run: Go, now: u64) {
        let port = &self.ports[at as usize];
        if port.cut || !self.flow_control {
            return;
        }
        let (next, reaches, arrives) = (port.downstream, before + self.hop, run.later(self.hop));
        let input = self.ports[next as usize].input.iter_mut().rev();
        let mut earlier = input.filter(|item| item.at < reaches);
        if let Some(last) = earlier.find(|item| matches!(item.what, What::Packet(_))) {
            last.rise = arrives;
            return;
        }
        let out = self.come_later(next, arrives, now);
        self.revise(next, out, now);
        self.plan(next, now);
    }

    /// Applies the arrival `arrives` at a port after `now` to the forecast of its output.
    fn come_later(&mut self, at: u32, arrives: Go, now: u64) -> Go {
        let port = &mut self.ports[at as usize];
        port.in_rise = arrives;
        if port.echo.is_none() {
            port.come(now + 1, arrives);
        }
        self.settle_own_idle(at, now);
        let port = &self.ports[at as usize];
        port.first_go.from(port.free_at)
    }

    /// Passes on the forecast of the idles behind the last packet of port `first`. All of them are
    /// in ticks after `now`.
    pub(super) fn revise(&mut self, first: u32, mut rise: Go, now: u64) {
        if !self.flow_control {
            return;
        }
        let mut at = first;
        while self.ports[at as usize].out_rise != rise {
            let port = &mut self.ports[at as usize];
            port.out_rise = rise;
            let (cut, downstream) = (port.cut, port.downstream);
            if at != first {
                self.plan(at, now);
            }
            if cut {
                return;
            }
            at = downstream;
            let arrives = rise.later(self.hop);
            let port = &mut self.ports[at as usize];
            let mut coming = port.input.iter_mut().rev();
            if let Some(last) = coming.find(|item| matches!(item.what, What::Packet(_))) {
                last.rise = arrives;
                return;
            }
            if at == first {
                port.in_rise = arrives;
                return;
            }
            rise = self.come_later(at, arrives, now);
        }
    }
}
