//! Detector events on their way into ev44 messages: a stream of them for each name.

use std::collections::{BTreeMap, HashMap};

use fluxline_packet::columnar::Numbers;
use fluxline_packet::ess::{Events, Operand};

use super::plan::Decoded;
use super::wire;

/// Bytes of an entry of the times in a message.
const TIME_BYTES: usize = 12;

/// The detector events of one name.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub name: String,
    reference_time: Vec<i64>,
    reference_time_index: Vec<i32>,
    time_of_flight: Vec<i32>,
    pixel_id: Vec<i32>,
    has_pixels: bool,
}

impl Stream {
    /// Returns the largest size of the message \[byte\].
    pub fn bytes(&self) -> usize {
        let hits = (self.time_of_flight.len() + self.pixel_id.len()) * size_of::<i32>();
        wire::TABLE_BYTES + self.name.len() + self.reference_time.len() * TIME_BYTES + hits
    }

    pub fn is_empty(&self) -> bool {
        self.reference_time.is_empty()
    }

    /// Returns the columns of the message.
    pub fn events(&self, message_id: i64) -> wire::Events<'_> {
        wire::Events {
            source_name: &self.name,
            message_id,
            reference_time: &self.reference_time,
            reference_time_index: &self.reference_time_index,
            time_of_flight: &self.time_of_flight,
            pixel_id: self.has_pixels.then_some(&self.pixel_id),
        }
    }

    pub fn clear(&mut self) {
        self.reference_time.clear();
        self.reference_time_index.clear();
        self.time_of_flight.clear();
        self.pixel_id.clear();
    }

    /// Begins the events of a reference time, unless it is that of the last ones.
    fn begin(&mut self, reference_time: i64) {
        if self.reference_time.last() != Some(&reference_time) {
            self.reference_time.push(reference_time);
            // A message ends long before 2^31 events.
            self.reference_time_index.push(self.time_of_flight.len() as i32);
        }
    }

    /// Returns the number of events for which a message of `bytes_max` bytes has room.
    fn room(&self, bytes_max: usize) -> usize {
        let each = if self.has_pixels { 2 } else { 1 } * size_of::<i32>();
        bytes_max.saturating_sub(self.bytes() + TIME_BYTES) / each
    }

    /// Appends the events of a packet; calls `full` with the stream before it would be larger than
    /// `bytes_max`.
    pub fn extend(&mut self, hits: &Hits, bytes_max: usize, full: &mut impl FnMut(&mut Stream)) {
        let count = hits.time_of_flight.len();
        let mut at = 0;
        loop {
            if self.room(bytes_max) == 0 && !self.is_empty() {
                full(self);
            }
            self.begin(hits.reference_time);
            let take = (count - at).min(self.room(bytes_max).max(1));
            self.time_of_flight.extend_from_slice(&hits.time_of_flight[at..at + take]);
            if let Some(pixels) = &hits.pixel_id {
                self.pixel_id.extend_from_slice(&pixels[at..at + take]);
            }
            at += take;
            if at == count {
                return;
            }
        }
    }
}

/// The streams of a group, each by its name, in the order of first use.
#[derive(Debug, Default)]
pub(super) struct Streams {
    used: Vec<Stream>,
    spare: Vec<Stream>,
    /// The stream of each name: of events without pixels, and with them.
    numbers: [HashMap<String, usize>; 2],
}

impl Streams {
    /// Returns the stream of a name. Events with and without pixels have streams of their own.
    pub fn get(&mut self, name: &str, has_pixels: bool) -> &mut Stream {
        let numbers = &mut self.numbers[usize::from(has_pixels)];
        let number = match numbers.get(name) {
            Some(number) => *number,
            None => {
                let mut stream = self.spare.pop().unwrap_or_default();
                stream.clear();
                stream.has_pixels = has_pixels;
                name.clone_into(&mut stream.name);
                self.used.push(stream);
                numbers.insert(name.to_owned(), self.used.len() - 1);
                self.used.len() - 1
            }
        };
        &mut self.used[number]
    }

    /// Returns the size of all messages \[byte\].
    pub fn bytes(&self) -> usize {
        self.used.iter().map(Stream::bytes).sum()
    }

    /// Calls `take` for each stream in the order of first use, and removes all.
    pub fn drain(&mut self, mut take: impl FnMut(&mut Stream)) {
        /// Streams whose memory is kept.
        const SPARE_MAX: usize = 64;
        self.numbers.iter_mut().for_each(HashMap::clear);
        for mut stream in self.used.drain(..) {
            take(&mut stream);
            if self.spare.len() < SPARE_MAX {
                self.spare.push(stream);
            }
        }
    }
}

/// The detector events of one packet.
#[derive(Debug, Default)]
pub(super) struct Hits {
    reference_time: i64,
    time_of_flight: Vec<i32>,
    pixel_id: Option<Vec<i32>>,
}

impl Hits {
    /// Returns the events of a packet; `None`: its time does not fit. Values that do not fit are
    /// counted in `misfits` by name.
    pub fn of(
        packet: &Decoded<'_>,
        mapping: &Events,
        misfits: &mut BTreeMap<String, u64>,
    ) -> Option<Hits> {
        let rows = packet.rows();
        let mut misfit = |key: &str, count: usize| {
            if count > 0 {
                let name = format!("{}.ess.ev44.{key}", packet.plan.packet.name);
                *misfits.entry(name).or_default() += count as u64;
            }
        };
        let Ok(reference_time) = i64::try_from(packet.time(&mapping.reference_time)) else {
            misfit("reference-time", rows);
            return None;
        };
        let mut keep = None;
        packet.keep_present(&mapping.time_of_flight, &mut keep);
        mapping.pixel_id.iter().for_each(|of| packet.keep_present(of, &mut keep));
        if let Some(when) = &mapping.when {
            let keep = keep.get_or_insert_with(|| vec![true; rows]);
            let flags = packet.evaluate(when);
            keep.iter_mut().zip(flags).for_each(|(keep, flag)| *keep &= flag != 0);
        }
        let mut column = |operand: &Operand, key: &str| {
            let numbers = packet.numbers(operand);
            let none = Numbers::U8(Vec::new());
            let (column, wrong) = int32(numbers.as_deref().unwrap_or(&none), rows, &mut keep);
            misfit(key, wrong);
            column
        };
        let time_of_flight = column(&mapping.time_of_flight, "time-of-flight");
        let pixel_id = mapping.pixel_id.as_ref().map(|of| column(of, "pixel-id"));
        let kept = |mut column: Vec<i32>| {
            if let Some(keep) = &keep {
                let mut flags = keep.iter();
                column.retain(|_| flags.next().copied().unwrap_or(false));
            }
            column
        };
        let (time_of_flight, pixel_id) = (kept(time_of_flight), pixel_id.map(kept));
        Some(Hits { reference_time, time_of_flight, pixel_id })
    }
}

/// Returns numbers as 32-bit integers, `rows` of them: a single one is repeated. Rows that do not
/// fit are removed from `keep` and counted.
fn int32(numbers: &Numbers, rows: usize, keep: &mut Option<Vec<bool>>) -> (Vec<i32>, usize) {
    let mut column: Vec<i32>;
    let mut fits = Vec::new();
    macro_rules! convert {
        ($vector:expr) => {{
            column = $vector.iter().map(|number| *number as i32).collect();
            let all = $vector.iter().all(|number| i32::try_from(*number).is_ok());
            if !all {
                fits = $vector.iter().map(|number| i32::try_from(*number).is_ok()).collect();
            }
        }};
    }
    match numbers {
        Numbers::U8(vector) => convert!(vector),
        Numbers::U16(vector) => convert!(vector),
        Numbers::U32(vector) => convert!(vector),
        Numbers::U64(vector) => convert!(vector),
        Numbers::I8(vector) => convert!(vector),
        Numbers::I16(vector) => convert!(vector),
        Numbers::I32(vector) => convert!(vector),
        Numbers::I64(vector) => convert!(vector),
        // Descriptions cannot name floats here.
        Numbers::F32(_) | Numbers::F64(_) => column = Vec::new(),
    }
    if column.len() == 1 && rows > 1 {
        column.resize(rows, column[0]);
        fits = fits.first().map(|fits| vec![*fits; rows]).unwrap_or_default();
    }
    column.resize(rows, 0);
    let mut wrong = 0;
    if !fits.is_empty() {
        let keep = keep.get_or_insert_with(|| vec![true; rows]);
        for (keep, fits) in keep.iter_mut().zip(fits) {
            wrong += usize::from(*keep && !fits);
            *keep &= fits;
        }
    }
    (column, wrong)
}
