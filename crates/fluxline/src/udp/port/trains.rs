//! Outgoing frames: written one behind the other, and sent as trains if they are alike.

use std::net::SocketAddr;
use std::ops::Range;

use crate::sys::port_socket::{OutgoingMessage, WireAddress};
use crate::sys::socket::{BATCH_MESSAGES, SEGMENTS_MAX};

/// Most bytes of waiting frames: four full trains, which fit into a core's second-level cache.
const QUEUE_BYTES: usize = 4 * 65_536;
/// Alignment of trains \[byte\]: a cache line.
const ALIGN: usize = 64;

/// Frames to one address that can leave as one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub(super) part: OutgoingMessage,
    pub(super) frames: usize,
    to: SocketAddr,
    /// Length of its first frame \[byte\].
    frame_bytes: usize,
    /// True if the kernel refused it as a train: its frames leave one by one.
    apart: bool,
}

impl Train {
    /// Returns its first frame alone, as a message.
    fn head(&self) -> OutgoingMessage {
        let len = self.part.len.min(self.frame_bytes);
        OutgoingMessage { len, segment_bytes: 0, ..self.part }
    }
}

/// Frames in the order of their requests.
pub(super) struct Trains {
    bytes: Box<[u8]>,
    trains: Vec<Train>,
    /// Offset of the next train.
    end: usize,
    /// Most bytes of a train.
    train_bytes_max: usize,
    /// Most frames of a train; 1 without segmentation.
    train_frames_max: usize,
}

impl Trains {
    pub(super) fn new(train_bytes_max: usize, segmentation: bool) -> Trains {
        Trains {
            bytes: vec![0; QUEUE_BYTES].into_boxed_slice(),
            trains: Vec::with_capacity(BATCH_MESSAGES),
            end: 0,
            train_bytes_max,
            train_frames_max: if segmentation { SEGMENTS_MAX } else { 1 },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    pub(super) fn segmentation(&self) -> bool {
        self.train_frames_max > 1
    }

    /// Switches segmentation off: from now on frames leave one by one.
    pub(super) fn stop_segmentation(&mut self) {
        self.train_frames_max = 1;
    }

    /// Reserves room for a frame; returns the room and the frame's index in its train, or `None`
    /// without room.
    pub(super) fn place(&mut self, to: SocketAddr, bytes: usize) -> Option<(Range<usize>, usize)> {
        if let Some(place) = self.join_last(to, bytes) {
            return Some(place);
        }
        if self.trains.len() == BATCH_MESSAGES {
            return None;
        }
        // A train begins only where it has room to become a full one.
        let needs = if self.segmentation() { self.train_bytes_max.max(bytes) } else { bytes };
        let mut start = self.end.next_multiple_of(ALIGN);
        if start + needs > self.bytes.len() {
            self.move_to_front();
            start = self.end.next_multiple_of(ALIGN);
        }
        if start + needs > self.bytes.len() {
            return None;
        }
        self.end = start + bytes;
        let part =
            OutgoingMessage { to: WireAddress::new(to), start, len: bytes, segment_bytes: 0 };
        self.trains.push(Train { part, frames: 1, to, frame_bytes: bytes, apart: false });
        Some((start..self.end, 0))
    }

    /// Appends a frame to the last train, if it has the same address and the same length; the last
    /// frame may be shorter.
    fn join_last(&mut self, to: SocketAddr, bytes: usize) -> Option<(Range<usize>, usize)> {
        let (most, bytes_max) = (self.train_frames_max, self.train_bytes_max);
        let train = self.trains.last_mut()?;
        let whole = train.part.len == train.frames * train.frame_bytes;
        let fits = train.frames < most
            && whole
            && bytes <= train.frame_bytes
            && train.part.len + bytes <= bytes_max
            && self.end + bytes <= self.bytes.len();
        if !fits || train.apart || train.to != to {
            return None;
        }
        let (start, index) = (self.end, train.frames);
        train.frames += 1;
        train.part.len += bytes;
        train.part.segment_bytes = train.frame_bytes;
        self.end += bytes;
        Some((start..self.end, index))
    }

    /// Appends at most `frames` frames to the last train, whose last frame has this length; returns
    /// the end of the train.
    pub(super) fn extend_last(&mut self, bytes: usize, frames: usize) -> usize {
        let Some(train) = self.trains.last_mut() else { return self.end };
        if bytes != train.frame_bytes || train.apart {
            return self.end;
        }
        let count = frames
            .min(self.train_frames_max - train.frames)
            .min(self.train_bytes_max.saturating_sub(train.part.len) / bytes)
            .min((self.bytes.len() - self.end) / bytes);
        if count > 0 {
            train.frames += count;
            train.part.len += count * bytes;
            train.part.segment_bytes = bytes;
            self.end += count * bytes;
        }
        self.end
    }

    /// Makes room behind the frames that could not be sent yet.
    fn move_to_front(&mut self) {
        let Some(first) = self.trains.first() else { return };
        let from = first.part.start;
        self.bytes.copy_within(from..self.end, 0);
        for train in &mut self.trains {
            train.part.start -= from;
        }
        self.end -= from;
    }

    pub(super) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        &mut self.bytes[place]
    }

    /// Gives `send` the bytes and the next messages; an error refers to the first message.
    pub(super) fn next<T>(&self, send: impl FnOnce(&[u8], &[OutgoingMessage]) -> T) -> T {
        if let [train] = &self.trains[..]
            && !train.apart
        {
            return send(&self.bytes, core::slice::from_ref(&train.part));
        }
        let idle = OutgoingMessage {
            to: WireAddress::new(SocketAddr::from(([0; 4], 0))),
            start: 0,
            len: 0,
            segment_bytes: 0,
        };
        let mut parts = [idle; BATCH_MESSAGES];
        let mut count = 0;
        for (slot, train) in parts.iter_mut().zip(&self.trains) {
            if train.apart && train.frames > 1 {
                // Frame by frame, with one call each, until the port has stopped making trains.
                if count == 0 {
                    *slot = train.head();
                    count = 1;
                }
                break;
            }
            *slot = train.part;
            count += 1;
        }
        send(&self.bytes, &parts[..count])
    }

    /// Removes the first `messages` messages of `next` after they were sent; returns frames and
    /// bytes.
    pub(super) fn sent(&mut self, messages: usize) -> (usize, usize) {
        let Some(first) = self.trains.first_mut() else { return (0, 0) };
        if first.apart && first.frames > 1 && messages > 0 {
            let bytes = first.head().len;
            first.part.start += bytes;
            first.part.len -= bytes;
            first.frames -= 1;
            if first.frames == 1 {
                first.part.segment_bytes = 0;
            }
            return (1, bytes);
        }
        let mut done = (0, 0);
        for train in self.trains.drain(..messages) {
            done.0 += train.frames;
            done.1 += train.part.len;
        }
        self.settle();
        done
    }

    /// Returns true if the kernel has refused the first train and takes its frames one by one.
    pub(super) fn first_is_apart(&self) -> bool {
        self.trains.first().is_some_and(|train| train.apart)
    }

    /// Lets the first train's frames leave one by one; returns `false` if it is a single frame or
    /// already split.
    pub(super) fn take_first_apart(&mut self) -> bool {
        let Some(first) = self.trains.first_mut() else { return false };
        let was_train = first.frames > 1 && !first.apart;
        first.apart |= was_train;
        was_train
    }

    /// Gives up the first train; returns the number of its frames.
    pub(super) fn drop_first(&mut self) -> usize {
        let frames = self.trains.drain(..1.min(self.trains.len())).map(|train| train.frames).sum();
        self.settle();
        frames
    }

    fn settle(&mut self) {
        if self.trains.is_empty() {
            self.end = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Returns frames and segment lengths of the trains that frames of these lengths form.
    fn shape(lens: &[(u16, usize)], segmentation: bool) -> Vec<(usize, usize, usize)> {
        let mut trains = Trains::new(65_507, segmentation);
        for &(port, len) in lens {
            let (place, _) = trains.place(peer(port), len).unwrap();
            assert_eq!(place.len(), len);
        }
        let of = |train: &Train| (train.frames, train.part.len, train.part.segment_bytes);
        trains.trains.iter().map(of).collect()
    }

    #[test]
    fn a_train_ends_at_a_longer_frame_another_address_or_after_a_shorter_one() {
        let got = shape(&[(1, 9), (1, 9), (1, 4), (1, 4), (1, 5), (2, 5), (2, 5)], true);
        assert_eq!(got, [(3, 22, 9), (1, 4, 0), (1, 5, 0), (2, 10, 5)]);
    }

    #[test]
    fn a_train_is_never_longer_than_a_datagram_nor_of_more_than_64_frames() {
        assert_eq!(shape(&[(1, 8_972); 8], true), [(7, 62_804, 8_972), (1, 8_972, 0)]);
        assert_eq!(shape(&[(1, 1); 65], true), [(64, 64, 1), (1, 1, 0)]);
    }

    #[test]
    fn a_train_made_at_once_is_that_of_as_many_frames() {
        for segmentation in [true, false] {
            for (before, bytes, frames) in
                [(0, 9, 5), (3, 9, 5), (3, 4, 5), (3, 20, 5), (60, 9, 9), (0, 9_000, 12)]
            {
                let [mut at_once, mut by_one] = [(); 2].map(|()| Trains::new(65_507, segmentation));
                for trains in [&mut at_once, &mut by_one] {
                    for _ in 0..before {
                        trains.place(peer(1), 9).expect("room");
                    }
                }
                let (first, _) = at_once.place(peer(1), bytes).expect("room");
                let end = at_once.extend_last(bytes, frames - 1);
                let made = (end - first.start) / bytes;
                assert!(made <= frames && (end - first.start) % bytes == 0);
                for _ in 0..made {
                    by_one.place(peer(1), bytes).expect("room");
                }
                let of = |train: &Train| (train.frames, train.part.len, train.part.segment_bytes);
                let [one, other] = [&at_once, &by_one]
                    .map(|trains| trains.trains.iter().map(of).collect::<Vec<_>>());
                assert_eq!(one, other, "{before} frames, then {frames} of {bytes} bytes");
                assert_eq!(at_once.end, by_one.end);
            }
        }
    }

    #[test]
    fn without_segmentation_each_frame_is_a_message() {
        assert_eq!(shape(&[(1, 7), (1, 7)], false), [(1, 7, 0), (1, 7, 0)]);
    }

    #[test]
    fn frames_that_wait_keep_their_bytes_when_they_are_moved_to_make_room() {
        let mut trains = Trains::new(65_507, true);
        let mut count = 0_usize;
        while let Some((place, _)) = trains.place(peer(count as u16), 60_000) {
            trains.bytes_mut(place).fill(count as u8 + 1);
            count += 1;
        }
        assert_eq!(count, 4);
        assert_eq!(trains.sent(2), (2, 120_000));
        let (place, index) = trains.place(peer(9), 60_000).unwrap();
        assert_eq!(index, 0);
        trains.bytes_mut(place).fill(9);
        let kept = trains.next(|bytes, parts| {
            let ends = parts.iter().map(|part| (bytes[part.start], bytes[part.start + 59_999]));
            ends.collect::<Vec<_>>()
        });
        assert_eq!(kept, [(3, 3), (4, 4), (9, 9)]);
        assert_eq!(trains.sent(3), (3, 180_000));
        assert!(trains.is_empty());
    }

    #[test]
    fn a_refused_train_leaves_frame_by_frame_in_order() {
        let mut trains = Trains::new(65_507, true);
        for (len, value) in [(9, 1), (9, 2), (4, 3), (30, 4)] {
            let (place, _) = trains.place(peer(1), len).unwrap();
            trains.bytes_mut(place).fill(value);
        }
        assert!(trains.take_first_apart());
        assert!(!trains.take_first_apart());
        let mut left = Vec::new();
        while !trains.is_empty() {
            let count = trains.next(|bytes, parts| {
                let shape =
                    |part: &OutgoingMessage| (part.len, part.segment_bytes, bytes[part.start]);
                left.extend(parts.iter().map(shape));
                parts.len()
            });
            trains.sent(count);
        }
        assert_eq!(left, [(9, 0, 1), (9, 0, 2), (4, 0, 3), (30, 0, 4)]);
    }
}
