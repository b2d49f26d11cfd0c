//! A device that restarts, and strangers who forge its address: its frames are kept, and no frame
//! that shows a wrong key or leaves the region moves its numbering.

use crate::support::device::{BASE, BYTES, Device, KEY, PAIR, device, write};
use fluxline_core::Span;
use fluxline_core::endpoint::counters::ConnectionCounters;
use fluxline_core::fabric::Completion;
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::roce::{Body, Headers, Psn, QueuePair, SendPart, Transport, WritePart};

/// Sends the frame with this PSN, with `value` as immediate and payload.
fn send(device: &mut Device, psn: u32, value: u32) {
    let address = BASE + u64::from(psn) % (BYTES / 8) * 8;
    device.raw.packet(write(psn, (KEY, address, 8), value), &u64::from(value).to_le_bytes());
}

fn counters(device: &Device) -> ConnectionCounters {
    device.world.nodes[0].connection_counters(device.endpoint).expect("open").clone()
}

/// Returns the immediates of the owner's notifications, after the last frame is decided.
fn notified(device: &mut Device) -> Vec<u32> {
    device.world.turn();
    let now = device.world.now;
    device.world.nodes[0].settle(now);
    device.world.turn();
    let completions = device.world.completions[0].drain(..);
    completions
        .filter_map(|what| match what {
            Completion::Notified { value, .. } => Some(value),
            _ => None,
        })
        .collect()
}

#[test]
fn a_device_that_restarts_from_its_first_number_loses_nothing() {
    for first in [Some(Psn::new(0)), None] {
        for frames in [1, 2, 100, 5000, 9000, 20_000_u32] {
            let mut device = device(first);
            for life in 0..3 {
                for psn in 0..frames {
                    send(&mut device, psn, life * frames + psn);
                    if psn % 64 == 0 {
                        device.world.turn();
                    }
                }
                device.world.run(1);
            }
            let expected: Vec<u32> = (0..3 * frames).collect();
            assert_eq!(notified(&mut device), expected, "{frames} frames a life");
            let counters = counters(&device);
            assert_eq!((counters.restarts, counters.frames_lost), (2, 0), "{frames}");
            assert_eq!(counters.frames_duplicate, 0, "{frames}");
            assert_eq!(counters.frames_expected, u64::from(3 * frames), "{frames}");
        }
    }
}

#[test]
fn a_device_that_restarts_and_sends_the_same_bytes_again_loses_nothing() {
    let mut device = device(None);
    for _ in 0..2 {
        (0..100).for_each(|psn| send(&mut device, psn, psn));
        device.world.run(50);
    }
    assert_eq!(notified(&mut device).len(), 200);
    assert_eq!(counters(&device).restarts, 1);
}

/// Returns a frame of a stranger that forges the device's address and does not know its key.
fn forged(psn: u32, kind: u64) -> (Headers, Vec<u8>) {
    let wrong = [(KEY ^ 1, BASE, 8), (KEY, BASE + BYTES, 8), (KEY, BASE - 8, 8), (KEY, BASE, 9)];
    let unreliable = Transport::Unreliable;
    let part = match kind % 7 {
        0..=3 => return (write(psn, wrong[(kind % 4) as usize], 9), vec![9; 8]),
        4 => Body::Write(unreliable, WritePart::Middle),
        5 => Body::Write(unreliable, WritePart::Last(Some(9))),
        _ => Body::Send(unreliable, SendPart::Only(None)),
    };
    (Headers::new(QueuePair::new(PAIR), Psn::new(psn), part), vec![9; 8])
}

#[test]
fn a_forged_frame_with_a_wrong_key_moves_no_number() {
    let mut draw = Draw::new(test_seed!(1));
    for kind in 0..7 {
        let mut device = device(Some(Psn::new(0)));
        for psn in 0..8000 {
            if psn % 1000 == 500 {
                let near = [psn + 1, psn + 4000, psn + 8000, draw.bits() as u32];
                for psn in near {
                    let (headers, payload) = forged(psn & 0x00FF_FFFF, kind);
                    device.raw.packet(headers, &payload);
                }
            }
            send(&mut device, psn, psn);
            if psn % 64 == 0 {
                device.world.turn();
            }
        }
        assert_eq!(notified(&mut device), (0..8000).collect::<Vec<_>>(), "kind {kind}");
        let counters = counters(&device);
        assert_eq!((counters.frames_lost, counters.frames_duplicate), (0, 0), "kind {kind}");
        assert_eq!((counters.restarts, counters.frames_expected), (0, 8000), "kind {kind}");
        let unfit = counters.frames_refused + counters.frames_out_of_message + counters.no_buffer;
        assert_eq!(unfit, 32, "kind {kind}");
    }
}

/// A stranger that knows the key can write, but later frames of the device are kept.
#[test]
fn a_forged_frame_with_the_right_key_and_any_number_loses_no_genuine_one() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(20) {
        println!("SEED={seed} COUNT=1");
        let mut draw = Draw::new(seed);
        let mut device = device(Some(Psn::new(0)));
        for psn in 0..3000 {
            if draw.chance(0.002) {
                // The numbers are far from those that the device will send.
                let far = psn + 100_000 + draw.below(15_000_000) as u32;
                send(&mut device, far & 0x00FF_FFFF, 1_000_000);
            }
            send(&mut device, psn, psn);
            device.world.turn();
        }
        let genuine: Vec<u32> =
            notified(&mut device).into_iter().filter(|value| *value < 1_000_000).collect();
        assert_eq!(genuine, (0..3000).collect::<Vec<_>>());
        assert_eq!((counters(&device).restarts, counters(&device).frames_lost), (0, 0));
    }
}

/// A device restarts on a network that drops, swaps and doubles frames. Each received frame gives
/// one notification, except counted duplicates.
#[test]
fn random_lives_over_a_bad_network_add_up() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(10) {
        println!("SEED={seed} COUNT=1");
        let mut draw = Draw::new(seed);
        let mut device = device(None);
        let (mut value, mut sent) = (0, 0_u64);
        for _ in 0..4 {
            for psn in 0..100 + draw.below(3000) as u32 {
                value += 1;
                if draw.chance(0.05) {
                    continue;
                }
                for _ in 0..1 + u64::from(draw.chance(0.05)) {
                    send(&mut device, psn, value);
                    sent += 1;
                }
                if psn % 16 == 0 {
                    device.world.turn();
                }
            }
            device.world.now = device.world.now + Span::from_ms(100);
            device.world.turn();
        }
        let completions = notified(&mut device);
        let mut once = completions.clone();
        once.dedup();
        assert_eq!(completions, once, "nothing twice");
        let counters = counters(&device);
        assert_eq!(sent, completions.len() as u64 + counters.frames_duplicate);
        assert_eq!(counters.frames_expected, completions.len() as u64 + counters.frames_lost);
    }
}
