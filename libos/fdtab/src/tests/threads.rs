//! Several threads at once, as carriers are, on files in memory.

use super::*;
use std::format;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const THREADS: u32 = 3;
const ROUNDS: usize = 150;
const SIZE: u64 = 1 << 20;

/// Runs `work` as each of the instances 1 to 3, at the same time.
fn side_by_side(domain: &Domain, work: impl Fn(u32) + Sync) {
    thread::scope(|scope| {
        for instance in 1..=THREADS {
            let work = &work;
            scope.spawn(move || {
                let _part = domain.take_part();
                work(instance);
            });
        }
    });
}

#[test]
fn records_that_threads_append_are_whole() {
    const RECORD: usize = 100;
    let domain = one();
    side_by_side(&domain, |instance| {
        let files = domain.files(instance);
        for _ in 0..ROUNDS {
            let log = files.open("/log", open::WRITE | open::APPEND | open::CREATE).unwrap();
            assert_eq!(files.write(log, &[instance as u8; RECORD]), Ok(RECORD as u64));
            files.close(log).unwrap();
        }
    });
    let written = domain.files(ME).read("/log").unwrap();
    assert_eq!(written.len(), THREADS as usize * ROUNDS * RECORD);
    let mut counts = [0; THREADS as usize];
    for record in written.chunks(RECORD) {
        assert!(record.iter().all(|byte| *byte == record[0]), "a torn record: {record:?}");
        counts[record[0] as usize - 1] += 1;
    }
    assert_eq!(counts, [ROUNDS; THREADS as usize]);
}

/// The same of records in several buffers.
#[test]
fn records_that_threads_append_in_pieces_are_whole() {
    const PIECES: usize = 40;
    let domain = one();
    side_by_side(&domain, |instance| {
        let log = domain.files(instance).open("/log", open::WRITE | open::APPEND | open::CREATE).unwrap();
        let piece = domain.place(instance, &[instance as u8; 5]);
        let list = [piece.to_ne_bytes(), 5u64.to_ne_bytes()].concat().repeat(PIECES);
        let list = domain.place(instance, &list);
        for _ in 0..ROUNDS {
            let args = [log, list, PIECES as u64, u64::MAX, 0, 0];
            assert_eq!(domain.call(instance, number::FILE_WRITEV, args), PIECES as i64 * 5);
        }
    });
    let written = domain.files(ME).read("/log").unwrap();
    assert_eq!(written.len(), THREADS as usize * ROUNDS * PIECES * 5);
    for record in written.chunks(PIECES * 5) {
        assert!(record.iter().all(|byte| *byte == record[0]), "a torn record: {record:?}");
    }
}

/// Threads replace a file by renaming others over it, read it and remove it. It is whole whenever it is there, and when all is over
/// nothing of the mount's limit is used up.
#[test]
fn a_file_that_threads_replace_is_whole_and_leaves_nothing() {
    const BYTES: usize = 5000;
    let domain = domain(vec![memory("/", SIZE)]);
    let seen = AtomicU32::new(0);
    domain.files(ME).make_directory("/d").unwrap();
    side_by_side(&domain, |instance| {
        let files = domain.files(instance);
        for round in 0..ROUNDS {
            let own = format!("/d/{instance}");
            let made = files.make(&own);
            assert_eq!(files.write(made, &[instance as u8; BYTES]), Ok(BYTES as u64));
            // Some stay open, and are closed when their instance ends.
            if round % 10 != 0 {
                files.close(made).unwrap();
            }
            files.rename(&own, "/d/shared").unwrap();
            if let Ok(found) = files.open("/d/shared", open::READ) {
                let bytes = files.read_at(found, BYTES + 1, 0).unwrap();
                assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == bytes[0]), "it is torn");
                files.close(found).unwrap();
                seen.fetch_add(1, Ordering::Relaxed);
            }
            assert!(files.list("/d").unwrap().len() <= THREADS as usize + 1);
            if round % 7 == 0 {
                assert!(matches!(files.remove_file("/d/shared"), Ok(()) | Err(Errno::NotFound)));
            }
        }
        assert!(domain.end(instance, Ending::Done));
    });
    assert!(seen.into_inner() > 0, "otherwise this shows nothing");
    let files = domain.files(9);
    _ = files.remove_file("/d/shared");
    files.remove_directory("/d").unwrap();
    assert_eq!(files.list("/").unwrap(), [""; 0]);
    let all = files.make("/all");
    files.resize(all, SIZE - (8 << 10)).unwrap();
}

#[test]
fn descriptors_of_one_instance_are_opened_and_closed_by_many_threads() {
    let domain = one();
    let total = AtomicU32::new(0);
    side_by_side(&domain, |number| {
        let files = domain.files(ME);
        for round in 0..ROUNDS {
            let path = format!("/{number}");
            let opened = files.make(&path);
            files.write_at(opened, &[number as u8, round as u8], 0).unwrap();
            let second = files.duplicate(opened).unwrap();
            files.close(opened).unwrap();
            assert_eq!(files.read_at(second, 2, 0).unwrap(), [number as u8, round as u8], "another thread's file");
            files.close(second).unwrap();
            total.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(total.into_inner() as usize, THREADS as usize * ROUNDS);
    assert_eq!(opened(&domain, "/1", open::READ), monohull_abi::file::FIRST_DESCRIPTOR, "all have been given back");
}

#[test]
fn threads_that_write_at_one_position_take_turns() {
    // Large enough that the writes of several threads overlap in time.
    const RECORD: usize = 40_000;
    const ROUNDS: usize = 8;
    let domain = one();
    let shared = domain.files(ME).make("/shared");
    side_by_side(&domain, |number| {
        for _ in 0..ROUNDS {
            assert_eq!(domain.files(ME).write(shared, &[number as u8; RECORD]), Ok(RECORD as u64));
        }
    });
    let written = domain.files(ME).read("/shared").unwrap();
    assert_eq!(written.len(), THREADS as usize * ROUNDS * RECORD, "one has written over another");
    assert!(written.chunks(RECORD).all(|record| record.iter().all(|byte| *byte == record[0])));
}
