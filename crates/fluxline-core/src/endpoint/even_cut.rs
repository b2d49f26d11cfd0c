//! Frames of equal length for an operation of several frames.
//!
//! The kernel sends equal frames as one message, a train, and a shorter frame ends the train. A
//! message costs as much as tens of frames. So an operation whose last frame is shorter than the
//! others needs a message more than one that fills all of its frames alike; the next operation of
//! the same length then goes on in the same train. Frames differ in payload by the three bytes of
//! padding that a header can name.
//!
//! Two Fluxline ends cut like this. Peers of the standard get full frames and a rest.

/// The longest train: the payload of a datagram over IPv6 \[byte\].
const TRAIN_BYTES_MAX: u64 = 65_487;
/// The most frames of a train. Source: UDP_MAX_SEGMENTS of Linux.
const TRAIN_FRAMES_MAX: u64 = 64;
/// The cost of a message, in frames. Measured on loopback: 2.9 us and 70 ns.
const MESSAGE_COST: u64 = 40;
/// Train lengths that are tried beyond that of the longest frames.
const TRIES: u64 = 8;
/// Padding that a header can name \[byte\].
const PAD_BYTES_MAX: u64 = 3;
/// The shortest frames that an operation is cut into \[byte\].
const FRAME_BYTES_MIN: u64 = 512;

/// The headers of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationHeaders {
    /// Headers and ICRC of each frame \[byte\].
    pub each_bytes: u64,
    /// Headers that only the first and the last frame have \[byte\].
    pub once_bytes: u64,
}

/// A cut into equal frames, and what it costs.
#[derive(Clone, Copy)]
struct Cut {
    frame_bytes: u64,
    /// The cost of its frames and messages \[1/64 frame\].
    cost: u64,
}

/// Returns the frame length that makes all frames of an operation equal, if that saves messages;
/// `frame_bytes_max`: the longest frame \[byte\].
pub(super) fn even_frame_bytes(
    frame_bytes_max: u64,
    payload_bytes: u64,
    headers: OperationHeaders,
) -> Option<u64> {
    let all = payload_bytes + headers.once_bytes;
    let most = frame_bytes_max.checked_sub(headers.each_bytes).filter(|most| *most > 0)?;
    if all <= most || frame_bytes_max < FRAME_BYTES_MIN {
        return None;
    }
    let frames = all.div_ceil(most);
    let plain =
        TRAIN_FRAMES_MAX * (frames + MESSAGE_COST * frames.div_ceil(train(frame_bytes_max)));
    let shortest = train(frame_bytes_max);
    let cuts = (shortest..=(shortest + TRIES).min(TRAIN_FRAMES_MAX)).filter_map(|frames| {
        let longest = (TRAIN_BYTES_MAX / frames).min(frame_bytes_max);
        cut_below(longest & !3, all, headers.each_bytes)
    });
    let best = cuts.min_by_key(|cut| cut.cost)?;
    (best.cost < plain).then_some(best.frame_bytes)
}

/// Returns the number of frames of this length in a train.
fn train(frame_bytes: u64) -> u64 {
    (TRAIN_BYTES_MAX / frame_bytes).clamp(1, TRAIN_FRAMES_MAX)
}

/// Cuts into the fewest equal frames that are no longer than `longest`.
fn cut_below(longest: u64, all: u64, each_bytes: u64) -> Option<Cut> {
    let fewest = all.div_ceil(longest.checked_sub(each_bytes).filter(|most| *most > 0)?);
    let cut = (fewest..fewest + 3).find_map(|frames| {
        let content = all.div_ceil(frames).next_multiple_of(4);
        let excess = content * frames - all;
        let fits = excess <= PAD_BYTES_MAX * frames && excess < content;
        fits.then_some((frames, content + each_bytes))
    });
    let (frames, frame_bytes) = cut.filter(|(_, frame_bytes)| *frame_bytes >= FRAME_BYTES_MIN)?;
    let messages = TRAIN_FRAMES_MAX * MESSAGE_COST * frames / train(frame_bytes);
    Some(Cut { frame_bytes, cost: TRAIN_FRAMES_MAX * frames + messages })
}

/// The next frames of an operation that is cut evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EvenPart {
    /// The payload of the next frame \[byte\].
    pub payload_bytes: u64,
    /// The frames that are left, this one included.
    pub frames_left: u64,
    /// The frames among them, from this one on, that have as much padding.
    pub alike: u64,
}

/// Returns the next frame of an operation in frames of `content_bytes`, without the headers that
/// all frames have. `rest` is the payload that is left; `own_bytes` are the headers that only this
/// frame and later ones have. Padding is in the last frames.
pub(super) fn even_part(content_bytes: u64, rest: u64, own: OwnHeaders) -> EvenPart {
    let all = rest + own.first_bytes + own.last_bytes;
    let frames_left = all.div_ceil(content_bytes).max(1);
    let excess = content_bytes * frames_left - all;
    if frames_left == 1 {
        return EvenPart { payload_bytes: rest, frames_left, alike: 1 };
    }
    let pad = excess.saturating_sub(PAD_BYTES_MAX * (frames_left - 1));
    let alike = match pad {
        0 => frames_left - excess.div_ceil(PAD_BYTES_MAX),
        PAD_BYTES_MAX => frames_left,
        _ => 1,
    };
    EvenPart { payload_bytes: content_bytes - own.first_bytes - pad, frames_left, alike }
}

/// The headers that only one frame of an operation has.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnHeaders {
    /// Those of the next frame, if it is the first one \[byte\].
    pub first_bytes: u64,
    /// Those of the last frame \[byte\].
    pub last_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Draw;

    const WRITE: OperationHeaders = OperationHeaders { each_bytes: 16, once_bytes: 20 };

    #[test]
    fn sixty_four_kibibytes_fill_equal_frames_of_every_usual_length() {
        let of = |frame_bytes| even_frame_bytes(frame_bytes, 65_536, WRITE);
        assert_eq!(of(1472), Some(1444), "46 frames, 45 a train; else 44 and 2");
        assert_eq!(of(8972), Some(8212), "8 frames, 7 a train; else 7 and 1 for each put");
        assert_eq!(even_frame_bytes(1472, 1400, WRITE), None, "one frame");
    }

    #[test]
    fn all_frames_of_any_operation_are_equal_and_carry_all_of_it() {
        let mut draw = Draw::new(11);
        let mut even = 0;
        for _ in 0..20_000 {
            let frame_bytes_max = 512 + draw.below(65_000) / 4 * 4;
            let longest = [3_000, 100_000, 3_000_000][draw.below(3) as usize];
            let bytes = 1 + draw.below(longest);
            let own = [(16, 4), (16, 0), (0, 0)][draw.below(3) as usize];
            let headers = OperationHeaders { each_bytes: 16, once_bytes: own.0 + own.1 };
            let Some(frame_bytes) = even_frame_bytes(frame_bytes_max, bytes, headers) else {
                continue;
            };
            even += 1;
            assert!(frame_bytes <= frame_bytes_max && frame_bytes % 4 == 0, "{frame_bytes}");
            let (mut rest, mut first_bytes, mut alike) = (bytes, own.0, (0, 0));
            loop {
                let own = OwnHeaders { first_bytes, last_bytes: own.1 };
                let part = even_part(frame_bytes - 16, rest, own);
                let last_bytes = if part.frames_left == 1 { own.last_bytes } else { 0 };
                let content = part.payload_bytes.next_multiple_of(4) + first_bytes + last_bytes;
                assert_eq!(content + 16, frame_bytes, "{bytes} bytes in {frame_bytes_max}");
                let pad = part.payload_bytes.next_multiple_of(4) - part.payload_bytes;
                if alike.0 > 0 && part.frames_left > 1 {
                    assert_eq!(pad, alike.1, "frames that were promised to be alike");
                }
                alike = (part.alike.max(alike.0) - 1, pad);
                rest -= part.payload_bytes;
                first_bytes = 0;
                if part.frames_left == 1 {
                    break;
                }
            }
            assert_eq!(rest, 0);
        }
        assert!(even > 5_000, "{even}");
    }
}
