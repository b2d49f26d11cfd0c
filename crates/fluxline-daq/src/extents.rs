//! The parts of a file that have data on the disk.
//!
//! A sparse file of a terabyte takes no space and reads as zeros, at the speed of memory: minutes
//! for nothing. Its holes are therefore passed over. A file system that does not know its holes
//! calls everything data. Source: Linux man-pages lseek(2), SEEK_DATA.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Most pieces of data that are looked at for the sum of holes.
const PIECES_MAX: usize = 1 << 16;

/// Returns the first place from `start` on that is not in a hole; `None` behind the last one. Moves
/// the position of the file.
pub(crate) fn next_data(file: &File, start: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(start)) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL) => Ok(Some(start)),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the end of the data at `start`, which is not in a hole.
fn end_of_data(file: &File, start: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Hole(start)) {
        Ok(place) => Ok(place),
        Err(Errno::INVAL) => Ok(u64::MAX),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the size of the holes of a file \[byte\]; of a file in very many pieces, those at its
/// start.
pub(crate) fn hole_bytes(file: &File) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let (mut holes, mut at) = (0, 0);
    for _ in 0..PIECES_MAX {
        let data = next_data(file, at)?.map_or(size, |data| data.min(size));
        holes += data.saturating_sub(at);
        if data == size {
            break;
        }
        at = end_of_data(file, data)?.min(size);
    }
    Ok(holes)
}

/// Copies `bytes` from `start` on to the beginning of another file, and leaves holes holes.
pub(crate) fn copy_data(from: &File, start: u64, bytes: u64, to: &File) -> io::Result<()> {
    let end = start + bytes;
    let mut piece = vec![0; PIECE_BYTES.min(bytes as usize)];
    let mut at = start;
    while let Some(data) = next_data(from, at)?.filter(|data| *data < end) {
        let data_end = end_of_data(from, data)?.min(end);
        at = data;
        while at < data_end {
            let count = piece.len().min((data_end - at) as usize);
            from.read_exact_at(&mut piece[..count], at)?;
            to.write_all_at(&piece[..count], at - start)?;
            at += count as u64;
        }
    }
    to.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_terabyte_with_holes_has_its_data_and_takes_no_time() {
        let size = 1 << 40;
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.set_len(size).unwrap();
        let places = [5, 3 << 20, (1 << 39) + 77, size - 4];
        for (number, place) in (1_u32..).zip(places) {
            from.write_all_at(&number.to_le_bytes(), place).unwrap();
        }
        let start = 2;
        copy_data(&from, start, size - start, &to).unwrap();
        assert_eq!(to.metadata().unwrap().len(), size - start);
        for (number, place) in (1_u32..).zip(places) {
            let mut found = [0; 4];
            to.read_exact_at(&mut found, place - start).unwrap();
            assert_eq!(u32::from_le_bytes(found), number, "at {place}");
        }
        assert_eq!(next_data(&from, size).unwrap(), None);
        assert!(hole_bytes(&from).unwrap() > size - (1 << 20));
        assert_eq!(hole_bytes(&tempfile::tempfile().unwrap()).unwrap(), 0);
    }
}
