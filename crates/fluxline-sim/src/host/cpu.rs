//! The processor: executes calls one after the other, and waits where the hardware makes it wait.

use std::collections::VecDeque;

use super::card::Owner;
use super::combining::Burst;
use super::config::Control;
use super::{
    Access, Atomic, Call, Descriptor, Host, Level, Notice, Outcome, Report, Status, Step, Tag,
};
use crate::{Duration, Instant};

/// Longest slice of computing between two checks of the DMA engine (a granularity of the model).
const COMPUTE_SLICE: Duration = Duration::from_ns(500);

/// The processor's state.
#[derive(Debug, Default)]
pub(super) struct Processor {
    queue: VecDeque<(Call, Tag)>,
    task: Option<(Task, Tag)>,
    wait: Wait,
    began: Option<Instant>,
    answer: Option<(Outcome, Vec<u8>)>,
}

impl Processor {
    pub(super) fn calls(&self) -> usize {
        self.queue.len() + usize::from(self.task.is_some())
    }
}

impl Processor {
    /// Returns the time for which it has been busy without a pause.
    pub(super) fn busy_since(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }
}

/// The reason why the processor waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    /// No wait: the processor is idle, or a slice runs.
    #[default]
    No,
    /// Room in the posting buffer.
    Room,
    /// An empty posting buffer.
    Drained,
    /// Idle write streams and an empty posting buffer.
    Idle,
    /// The answer of a load or lock.
    Answer,
    /// Room for a descriptor.
    Registers,
    /// The end of a DMA call.
    Engine(u64),
}

/// The next step of a task.
enum Next {
    Slice(Duration),
    Until(Instant),
    Wait(Wait),
    Done(Outcome, Vec<u8>),
    /// The processor has finished; the DMA engine will complete the call.
    Handed,
}

/// A call under way.
#[derive(Debug)]
enum Task {
    Store { to: u32, offset: u64, data: Vec<u8>, done: usize, issued: Option<Burst> },
    Load { to: u32, offset: u64, bytes: u32, got: Vec<u8>, step: u8 },
    Lock { to: u32, offset: u64, atomic: Atomic, data: Vec<u8>, step: u8 },
    Settle { step: u8, goal: Goal },
    Dma(Box<Dma>),
    Compute { left_ps: u64, slice_ps: u64 },
}

/// The extent of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Flush,
    Barrier,
    Check,
}

#[derive(Debug)]
struct Dma {
    left: VecDeque<Descriptor>,
    level: Level,
    notice: Notice,
    step: DmaStep,
    call: u64,
}

/// The step of the processor in a DMA call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DmaStep {
    /// Entering the driver.
    Enter,
    /// Waiting for room in the engine's registers.
    Room,
    /// Writing the registers.
    Kick,
    /// Handing the registers to the engine.
    Give,
    /// Waiting for the end.
    Spin,
    /// Noticing the end.
    Look,
    /// Returning from the driver.
    Return,
    /// The call is over.
    End,
}

fn normal() -> Next {
    Next::Done(Outcome::Done(Status::Normal), Vec::new())
}

impl From<Call> for Task {
    fn from(call: Call) -> Task {
        match call {
            Call::Store { to, offset, data } => {
                Task::Store { to, offset, data, done: 0, issued: None }
            }
            Call::Load { to, offset, bytes } => {
                Task::Load { to, offset, bytes, got: Vec::new(), step: 0 }
            }
            Call::Lock { to, offset, atomic, data } => {
                Task::Lock { to, offset, atomic, data, step: 0 }
            }
            Call::Flush => Task::Settle { step: 0, goal: Goal::Flush },
            Call::Barrier => Task::Settle { step: 0, goal: Goal::Barrier },
            Call::Check => Task::Settle { step: 0, goal: Goal::Check },
            Call::Dma { descriptors, level, notice } => {
                let left = descriptors.into();
                Task::Dma(Box::new(Dma { left, level, notice, step: DmaStep::Enter, call: 0 }))
            }
            Call::Compute(work) => Task::Compute { left_ps: work.as_ps(), slice_ps: 0 },
        }
    }
}

impl Host {
    pub(super) fn cpu_submit(&mut self, call: Call, tag: Tag) {
        self.processor.queue.push_back((call, tag));
        if self.processor.task.is_none() {
            self.processor.began = Some(self.now);
            self.cpu_go();
        }
    }

    /// Handles the end of a slice.
    pub(super) fn cpu_step(&mut self) {
        self.cpu_go();
    }

    /// Continues if the condition that the processor waits for holds.
    pub(super) fn cpu_resume(&mut self) {
        if self.processor.wait != Wait::No && self.cpu_may_go(self.processor.wait) {
            self.processor.wait = Wait::No;
            self.cpu_go();
        }
    }

    /// Takes an answer for the processor.
    pub(super) fn cpu_answer(&mut self, outcome: Outcome, data: Vec<u8>) {
        self.processor.answer = Some((outcome, data));
        self.cpu_resume();
    }

    fn cpu_may_go(&self, wait: Wait) -> bool {
        match wait {
            Wait::No => true,
            Wait::Room => self.posting.posted() <= self.config.bus.posted_bursts as usize,
            Wait::Drained => self.posting.posted() == 0,
            Wait::Idle => self.posting.posted() == 0 && self.streams.idle(),
            Wait::Answer => self.processor.answer.is_some(),
            Wait::Registers => match self.config.engine.control {
                Control::Registers { depth } => self.engine.held() < depth as usize,
                Control::List { .. } => true,
            },
            Wait::Engine(call) => self.engine.is_done(call),
        }
    }

    /// Executes calls until one takes time.
    fn cpu_go(&mut self) {
        loop {
            let next = self.processor.queue.pop_front();
            let task = match self.processor.task.take() {
                Some(task) => {
                    next.into_iter().for_each(|call| self.processor.queue.push_front(call));
                    Some(task)
                }
                None => next.map(|(call, tag)| (Task::from(call), tag)),
            };
            let Some((mut task, tag)) = task else { return self.cpu_rest() };
            let next = self.cpu_do(&mut task, tag);
            match next {
                Next::Done(outcome, data) => {
                    self.reports.push_back(Report::Completed { tag, outcome, data });
                }
                Next::Handed => {}
                Next::Slice(span) => {
                    self.processor.task = Some((task, tag));
                    return self.schedule(self.now + span, Step::Cpu);
                }
                Next::Until(at) => {
                    self.processor.task = Some((task, tag));
                    return self.schedule(at, Step::Cpu);
                }
                Next::Wait(wait) => {
                    self.processor.task = Some((task, tag));
                    if !self.cpu_may_go(wait) {
                        self.processor.wait = wait;
                        return;
                    }
                }
            }
        }
    }

    fn cpu_rest(&mut self) {
        if let Some(began) = self.processor.began.take() {
            self.counters.cpu_busy_ps += self.now.since(began).as_ps();
            self.reports.push_back(Report::CpuFree);
        }
    }

    fn cpu_do(&mut self, task: &mut Task, tag: Tag) -> Next {
        match task {
            Task::Store { to, offset, data, done, issued } => {
                self.do_store(*to, *offset, data, done, issued)
            }
            Task::Load { to, offset, bytes, got, step } => {
                self.do_load(*to, *offset, *bytes, got, step)
            }
            Task::Lock { to, offset, atomic, data, step } => {
                self.do_lock(*to, *offset, *atomic, data, step)
            }
            Task::Settle { step, goal } => self.do_settle(step, *goal),
            Task::Dma(dma) => self.do_dma(dma, tag),
            Task::Compute { left_ps, slice_ps } => self.do_compute(left_ps, slice_ps),
        }
    }

    /// Returns the time for `bytes` of stores.
    fn store_time(&self, bytes: usize) -> Duration {
        let words = bytes.div_ceil(self.config.cpu.word_bytes as usize);
        self.config.cpu.store_word.times(words as u64)
    }

    fn do_store(
        &mut self,
        to: u32,
        offset: u64,
        data: &[u8],
        done: &mut usize,
        issued: &mut Option<Burst>,
    ) -> Next {
        let first = *done == 0 && issued.is_none();
        if let Some(burst) = issued.take() {
            self.combine(burst);
            return Next::Wait(Wait::Room);
        }
        if *done == data.len() {
            return normal();
        }
        let unit = self.config.cpu.combining.map_or(self.config.bus.store_burst_bytes, |c| c.bytes);
        let at = offset + *done as u64;
        let room = u64::from(unit) - at % u64::from(unit);
        let bytes = (data.len() - *done).min(room as usize);
        *issued = Some(Burst { to, offset: at, data: data[*done..*done + bytes].to_vec() });
        *done += bytes;
        self.counters.stored_bytes += bytes as u64;
        let call = if first { self.config.cpu.call } else { Duration::ZERO };
        Next::Slice(call + self.store_time(bytes))
    }

    fn do_load(
        &mut self,
        to: u32,
        offset: u64,
        bytes: u32,
        got: &mut Vec<u8>,
        step: &mut u8,
    ) -> Next {
        let at = offset + got.len() as u64;
        let left = bytes - got.len() as u32;
        let word = self.config.cpu.word_bytes;
        let prefetch = self.config.card.prefetch;
        let block = if prefetch { 64 } else { word };
        let here = left.min(block - (at % u64::from(block)) as u32);
        *step += 1;
        match *step {
            1 => Next::Slice(self.config.cpu.call),
            // A read never overtakes posted writes on the bus.
            2 => Next::Wait(Wait::Drained),
            3 if left == 0 => Next::Done(Outcome::Done(Status::Normal), std::mem::take(got)),
            3 => {
                let miss = self.card.translate(to, at);
                Next::Until(self.bus.load(self.now, 1, word) + miss)
            }
            4 => {
                self.processor.answer = None;
                let (from, bytes) = if prefetch { (at & !63, 64) } else { (at, here) };
                self.card_send(Owner::Processor, to, Access::Read { bytes }, from, Vec::new());
                Next::Wait(Wait::Answer)
            }
            5 => {
                let Some((outcome, data)) = self.processor.answer.take() else {
                    return Next::Done(Outcome::Lost, Vec::new());
                };
                if outcome != Outcome::Done(Status::Normal) {
                    return Next::Done(outcome, Vec::new());
                }
                let skip = if prefetch { (at % 64) as usize } else { 0 };
                let from = data.into_iter().skip(skip).chain(std::iter::repeat(0));
                got.extend(from.take(here as usize));
                *step = 2;
                Next::Until(self.bus.load(self.now, here.div_ceil(word), word))
            }
            _ => normal(),
        }
    }

    fn do_lock(
        &mut self,
        to: u32,
        offset: u64,
        atomic: Atomic,
        data: &mut Vec<u8>,
        step: &mut u8,
    ) -> Next {
        *step += 1;
        match *step {
            1 => Next::Slice(self.config.cpu.call),
            2 => Next::Wait(Wait::Drained),
            3 => Next::Until(self.bus.load(self.now, 1, self.config.cpu.word_bytes)),
            4 => {
                self.processor.answer = None;
                let operands = std::mem::take(data);
                self.card_send(Owner::Processor, to, Access::Lock(atomic), offset, operands);
                Next::Wait(Wait::Answer)
            }
            _ => {
                let answer = self.processor.answer.take();
                let (outcome, old) = answer.unwrap_or((Outcome::Lost, Vec::new()));
                Next::Done(outcome, old)
            }
        }
    }

    fn do_settle(&mut self, step: &mut u8, goal: Goal) -> Next {
        *step += 1;
        match (*step, goal) {
            (1, _) => {
                self.combining_flush();
                Next::Wait(Wait::Drained)
            }
            (2, _) => {
                self.streams_flush();
                if goal == Goal::Flush { normal() } else { Next::Wait(Wait::Idle) }
            }
            (3, Goal::Check) => Next::Slice(self.config.software.check),
            (4, Goal::Check) => Next::Done(self.card.take_worst(), Vec::new()),
            _ => normal(),
        }
    }

    fn do_dma(&mut self, dma: &mut Dma, tag: Tag) -> Next {
        let (software, kick) = (self.config.software, self.config.engine.kick);
        let list = matches!(self.config.engine.control, Control::List { .. });
        let (kernel, spin) = (dma.level == Level::Kernel, dma.notice == Notice::Spin);
        loop {
            let step = dma.step;
            dma.step = match step {
                DmaStep::Enter => DmaStep::Room,
                DmaStep::Room if !dma.left.is_empty() => DmaStep::Kick,
                DmaStep::Room if spin => DmaStep::Spin,
                DmaStep::Room => DmaStep::Return,
                DmaStep::Kick => DmaStep::Give,
                DmaStep::Give => DmaStep::Room,
                DmaStep::Spin => DmaStep::Look,
                DmaStep::Look => DmaStep::Return,
                DmaStep::Return | DmaStep::End => DmaStep::End,
            };
            match step {
                DmaStep::Enter => {
                    dma.call = self.engine_open(tag, dma.notice, dma.left.len());
                    return Next::Slice(if kernel {
                        software.kernel_entry
                    } else {
                        Duration::ZERO
                    });
                }
                DmaStep::Room if dma.left.is_empty() => {}
                DmaStep::Room => return Next::Wait(Wait::Registers),
                DmaStep::Kick => return Next::Slice(kick),
                DmaStep::Give => {
                    let count = if list { dma.left.len() } else { 1 };
                    for descriptor in dma.left.drain(..count) {
                        self.engine_give(dma.call, descriptor);
                    }
                }
                DmaStep::Spin => return Next::Wait(Wait::Engine(dma.call)),
                DmaStep::Look => return Next::Slice(software.status_read),
                DmaStep::Return if kernel => return Next::Slice(software.kernel_return),
                DmaStep::Return => {}
                DmaStep::End if spin => {
                    return Next::Done(self.engine_close(dma.call), Vec::new());
                }
                DmaStep::End => return Next::Handed,
            }
        }
    }

    fn do_compute(&mut self, left_ps: &mut u64, slice_ps: &mut u64) -> Next {
        *left_ps -= *slice_ps;
        if *left_ps == 0 {
            return normal();
        }
        *slice_ps = COMPUTE_SLICE.as_ps().min(*left_ps);
        let speed = match self.engine.busy() {
            true => 100 - u64::from(self.config.cpu.slow_down_percent),
            false => 100,
        };
        Next::Slice(Duration::from_ps(*slice_ps * 100 / speed))
    }
}
