//! What must end the function, and only that.

use crate::{BIG, Result, byte, bytes, make};
use monohull_std::fs::{self, File};
use monohull_std::hint::black_box;
use monohull_std::io::{self, ErrorKind};
use monohull_std::mmap::{Mmap, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::sync::atomic::{AtomicBool, Ordering};
use monohull_std::thread;

fn big(folder: &str) -> Result<Mmap> {
    let map = Mmap::map(&File::open(format!("{folder}/big"))?)?;
    println!("mapped {} bytes, the first is {}", map.len(), map[0]);
    Ok(map)
}

fn read(address: *const u8) {
    // SAFETY: none: that is the test. The system stops it.
    black_box(unsafe { address.read_volatile() });
}

fn write(address: *const u8) {
    // SAFETY: none, as above.
    unsafe { address.cast_mut().write_volatile(1) };
}

pub(crate) fn write_read_only(folder: &str) -> Result<()> {
    let map = big(folder)?;
    write(&map[1 << 20]);
    Err("it was written to".into())
}

pub(crate) fn write_after_read_only(folder: &str) -> Result<()> {
    let mut copy = MmapOptions::new().map_copy(&File::open(format!("{folder}/big"))?)?;
    copy[0] = 1;
    println!("written");
    let fixed = copy.make_read_only()?;
    write(&fixed[0]);
    Err("it was written to".into())
}

pub(crate) fn execute(folder: &str) -> Result<()> {
    let map = MmapOptions::new().map_copy(&File::open(format!("{folder}/big"))?)?;
    println!("mapped {} bytes, the first is {}", map.len(), map[0]);
    // SAFETY: none, as above.
    let code: extern "C" fn() = unsafe { monohull_std::mem::transmute(map.as_ptr()) };
    code();
    Err("it was executed".into())
}

pub(crate) fn after_unmap(folder: &str) -> Result<()> {
    let map = big(folder)?;
    let address = map.as_ptr();
    drop(map);
    println!("taken back");
    read(address);
    Err("it is still there".into())
}

pub(crate) fn past_the_end(folder: &str) -> Result<()> {
    let map = big(folder)?;
    let rest = 4096 - BIG % 4096;
    // SAFETY: the last page is whole.
    let zeros = (0..rest).all(|place| unsafe { map.as_ptr().add(BIG + place).read() } == 0);
    println!("the rest of the last page is zero: {zeros}");
    read(map.as_ptr().wrapping_add(BIG + rest));
    Err("there is more".into())
}

pub(crate) fn in_the_gap(folder: &str) -> Result<()> {
    let (one, other) = (big(folder)?, big(folder)?);
    let (low, high) = (one.as_ptr().min(other.as_ptr()), one.as_ptr().max(other.as_ptr()));
    println!("{} bytes apart", high as usize - low as usize);
    read(high.wrapping_sub(1));
    Err("they touch".into())
}

/// Maps the file, prints a line upon which the test changes the file, and touches the last byte of the last full page.
pub(crate) fn touch_late(folder: &str) -> Result<()> {
    let map = big(folder)?;
    let late = BIG - BIG % 4096 - 1;
    println!("ready");
    let found = map[late];
    println!("byte {late} is {found}, it was {}", byte(late));
    Ok(())
}

/// The same, with a hostcall that copies: that is an error, and the function goes on.
pub(crate) fn write_out(folder: &str) -> Result<()> {
    let map = big(folder)?;
    println!("ready");
    match fs::write("/out/copy", &map[..]) {
        Ok(()) => Err("it was copied".into()),
        Err(error) => {
            println!("refused: {error}");
            println!("the first byte is still {}", map[0]);
            Ok(())
        }
    }
}

pub(crate) fn too_many(folder: &str) -> Result<()> {
    let file = File::open(format!("{folder}/big"))?;
    let mut maps = Vec::new();
    let refused = loop {
        match MmapOptions::new().len(70_000).map(&file) {
            Ok(map) => maps.push(map),
            Err(error) => break error,
        }
    };
    println!("{} mappings, then: {refused}", maps.len());
    let middle = maps.len() / 2;
    maps.swap_remove(middle);
    let again = MmapOptions::new().len(70_000).map(&file)?;
    println!("one less, and there is room again: {}", again[..] == bytes(70_000)[..]);
    Ok(())
}

/// With a memory limit of 16 MiB.
pub(crate) fn too_large(folder: &str) -> Result<()> {
    let file = make(&format!("{folder}/huge"), 1)?;
    file.set_len(12 << 20)?;
    let first = Mmap::map(&file)?;
    let second = Mmap::map(&file).map(drop).map_err(|error| (error.kind(), error.to_string()));
    let Err((ErrorKind::OutOfMemory, why)) = second else { return Err(format!("{second:?}").into()) };
    println!("refused: {why}");
    drop(first);
    println!("after the first is gone: {}", Mmap::map(&file)?.len());
    Ok(())
}

/// One thread reads a mapping by hostcalls, others touch it, while another takes it back and maps it again: errors or bytes of the
/// file, and at the end a fault at worst.
pub(crate) fn unmap_under_touch(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    let done = AtomicBool::new(false);
    let all = bytes(BIG);
    let first = big(folder)?;
    let (start, len) = (first.as_ptr() as usize, first.len());
    drop(first);
    let wrong = thread::scope(|scope| {
        let readers: Vec<_> = (0..3usize)
            .map(|number| {
                let (done, all) = (&done, &all);
                scope.spawn(move || -> io::Result<usize> {
                    let out = format!("/out/{number}");
                    let mut wrong = 0;
                    while !done.load(Ordering::Relaxed) {
                        // SAFETY: none: it comes and goes. Only the system copies from it.
                        let bytes = unsafe { monohull_std::slice::from_raw_parts(start as *const u8, len) };
                        if fs::write(&out, bytes).is_ok() && fs::read(&out)? != *all {
                            wrong += 1;
                        }
                        // There may be one carrier for all of them.
                        thread::yield_now();
                    }
                    Ok(wrong)
                })
            })
            .collect();
        for _ in 0..60 {
            let map = Mmap::map(&File::open(&path).expect("a file")).expect("a mapping");
            black_box(map[BIG / 2]);
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().expect("it ends").expect("it can be read")).sum::<usize>()
    });
    println!("wrong copies: {wrong}");
    Ok(())
}

/// Touches page after page for ever.
pub(crate) fn wait_for_file(folder: &str) -> Result<()> {
    println!("begun");
    loop {
        let map = Mmap::map(&File::open(format!("{folder}/big"))?)?;
        black_box(map.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>());
    }
}
