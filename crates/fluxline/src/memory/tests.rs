//! Own memory against plain bytes. Miri checks those of words:
//! `cargo +nightly miri test -p fluxline --lib -- memory::`.

use std::any::Any;
use std::sync::Arc;

use fluxline_core::fabric::{AccessError, Memory};
use fluxline_core::random::Draw;

use super::OwnMemory;

const BYTES: u64 = 104;

fn of_words() -> OwnMemory {
    OwnMemory::from(vec![0_u64; (BYTES / 8) as usize])
}

/// Writes, adds and views at random; the memory must stay equal to plain bytes.
fn behaves_like_plain_bytes(mut memory: OwnMemory, seed: u64) {
    let (mut draw, mut plain) = (Draw::new(seed), vec![0_u8; BYTES as usize]);
    for round in 0..300_u64 {
        let offset = draw.below(BYTES);
        let word = (offset / 8 * 8) as usize;
        match draw.below(4) {
            0 => {
                let data = vec![round as u8; draw.below(BYTES + 1 - offset) as usize];
                memory.write(offset, &data).expect("inside");
                plain[offset as usize..][..data.len()].copy_from_slice(&data);
            }
            1 => {
                memory.fetch_add(word as u64, round).expect("aligned");
                let before = plain[word..][..8].try_into().map_or(0, u64::from_le_bytes);
                plain[word..][..8].copy_from_slice(&before.wrapping_add(round).to_le_bytes());
            }
            2 => {
                let see = &mut |bytes: &mut [u8]| bytes[offset as usize] ^= 0xFF;
                memory.view(see).expect("its own");
                plain[offset as usize] ^= 0xFF;
            }
            _ => assert_eq!(memory.as_mut_slice(), plain, "seed {seed}, round {round}"),
        }
        let mut found = vec![0; BYTES as usize];
        memory.read(0, &mut found).expect("inside");
        assert_eq!(found, plain, "seed {seed}, round {round}");
    }
}

#[test]
fn words_of_the_program_behave_like_plain_bytes() {
    (0..4).for_each(|seed| behaves_like_plain_bytes(of_words(), seed));
}

#[cfg(not(miri))] // It maps nothing.
#[test]
fn mapped_memory_behaves_like_plain_bytes_on_pages_of_any_size() {
    behaves_like_plain_bytes(OwnMemory::zeroed(BYTES).expect("memory"), 1);
    behaves_like_plain_bytes(OwnMemory::huge(BYTES).expect("memory"), 2);
    let mut large = OwnMemory::huge(3 << 20).expect("memory");
    assert!(large.as_mut_slice().iter().all(|byte| *byte == 0));
    assert!(OwnMemory::zeroed(0).is_err() && OwnMemory::zeroed(u64::MAX).is_err());
    assert!(large.into_words().is_err(), "it has no words of the program");
}

#[test]
fn the_program_gets_the_same_words_back_and_not_a_copy() {
    let words: Box<[u64]> = vec![1, 2, 3].into_boxed_slice();
    let address = words.as_ptr();
    let shared: Arc<dyn Memory> = Arc::new(OwnMemory::from(words));
    shared.store(8, 9).expect("inside");
    let any: Arc<dyn Any + Send + Sync> = shared;
    let own = any.downcast::<OwnMemory>().ok().and_then(Arc::into_inner).expect("no other holder");
    let words = own.into_words().expect("made of words");
    assert_eq!((&*words, words.as_ptr()), ([1, 9, 3].as_slice(), address));
}

#[test]
fn accesses_beyond_the_memory_and_unaligned_words_are_refused() {
    let memory = of_words();
    let beyond = |offset, bytes| AccessError::OutOfRegion { offset, bytes, region_bytes: BYTES };
    assert_eq!(memory.write(BYTES - 1, &[1, 1]), Err(beyond(BYTES - 1, 2)));
    assert_eq!(memory.read(u64::MAX, &mut [0]), Err(beyond(u64::MAX, 1)));
    assert_eq!(memory.load(BYTES), Err(beyond(BYTES, 8)));
    assert_eq!(memory.store(4, 1), Err(AccessError::Unaligned { offset: 4 }));
    assert!(OwnMemory::from(Vec::new()).load(0).is_err());
}
