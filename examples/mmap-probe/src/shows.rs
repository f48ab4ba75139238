//! What a mapping shows, and goes on showing.

use crate::{BIG, Result, byte, bytes, make, remove};
use monohull_std::fs::{self, File};
use monohull_std::io::{Read, Write};
use monohull_std::mmap::{Advice, Mmap, MmapMut, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;

/// Says so, or ends with an error.
#[track_caller]
fn check(what: &str, right: bool) -> Result<()> {
    match right {
        true => {
            println!("{what}");
            Ok(())
        }
        false => Err(format!("not so: {what}").into()),
    }
}

/// Everything, on a folder that can be written to.
pub(crate) fn everything(folder: &str) -> Result<()> {
    for len in [1, 4095, 4096, 4097, 65_536, 65_537, 1 << 20, BIG] {
        let path = format!("{folder}/of-{len}");
        let file = make(&path, len)?;
        let map = Mmap::map(&file)?;
        check(&format!("{len} bytes are the file's"), map[..] == bytes(len)[..])?;
        remove(&path)?;
    }
    the_same_as_read(folder)?;
    parts(folder)?;
    pieces(folder)?;
    private(folder)?;
    file_goes_on(folder)?;
    in_calls(folder)?;
    orders(folder)?;
    many_threads(folder)?;
    refused(folder)
}

/// On a folder that may be read-only: the file `big` that is there.
pub(crate) fn the_same_as_read(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    if !fs::exists(&path)? {
        make(&path, BIG)?;
    }
    let read = fs::read(&path)?;
    let file = File::open(&path)?;
    let map = Mmap::map(&file)?;
    drop(file);
    check("it outlives its descriptor", map.len() == BIG && map[BIG - 1] == byte(BIG - 1))?;
    check("from start to end it is what reading gives", map[..] == read[..])?;
    drop(map);
    let again = Mmap::map(&File::open(&path)?)?;
    check("backwards too", again.iter().rev().eq(read.iter().rev()))
}

/// Pages that have been touched before a long sleep, and some that have not, of a file that may change in it. What it sees goes to
/// its lines.
pub(crate) fn over_a_nap(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    if !fs::exists(&path)? {
        make(&path, BIG)?;
    }
    let file = File::open(&path)?;
    let map = Mmap::map(&file)?;
    let mut copy = MmapOptions::new().map_copy(&file)?;
    let small = MmapOptions::new().len(5000).map(&file)?;
    map.advise(Advice::Random)?;
    copy.advise(Advice::Random)?;
    check("touched before", map[0] == byte(0) && map[4 << 20] == byte(4 << 20))?;
    copy[8192] = !byte(8192);
    copy[12288..16384].fill(0);
    thread::sleep(Duration::from_secs(3600));
    check("what was touched is as it was", map[..4096] == bytes(4096)[..] && map[4 << 20] == byte(4 << 20))?;
    check(
        "what was written is as it was",
        copy[8192] == !byte(8192) && copy[12288..16384].iter().all(|byte| *byte == 0),
    )?;
    check("a small mapping is as it was", small[..] == bytes(5000)[..])?;
    println!("not touched before: {}", map[2 << 20] == byte(2 << 20));
    copy[1] = 1;
    check("a copy can be written to", copy[1] == 1)
}

fn parts(folder: &str) -> Result<()> {
    let file = File::open(format!("{folder}/big"))?;
    let all = bytes(BIG);
    for (offset, len) in [(0, 1), (1, 100_000), (4095, 2), (4097, 1 << 20), (2 << 20, (1 << 20) + 1), (BIG - 1, 1)] {
        let map = MmapOptions::new().offset(offset as u64).len(len).map(&file)?;
        let right = map[..] == all[offset..offset + len];
        check(&format!("{len} bytes from {offset} on are the file's"), right)?;
    }
    let rest = MmapOptions::new().offset(1_000_001).map(&file)?;
    check("without a length it is all that comes after", rest[..] == all[1_000_001..])?;
    let filled = MmapOptions::new().populate().map(&file)?;
    check("filled when it is made it is the same", filled[..] == all[..])?;
    let none = MmapOptions::new().offset(BIG as u64).map(&file)?;
    check("behind the end there is nothing", none.is_empty())
}

/// Two files that grow by turns lie in pieces between each other, whose ends are no ends of pages.
fn pieces(folder: &str) -> Result<()> {
    let paths = [format!("{folder}/one"), format!("{folder}/other")];
    let mut files = [make(&paths[0], 0)?, make(&paths[1], 0)?];
    let all = bytes(300_000);
    for piece in all.chunks(3000) {
        for file in &mut files {
            file.write_all(piece)?;
        }
    }
    // And a hole.
    files[0].set_len(1 << 20)?;
    let maps = [Mmap::map(&files[0])?, Mmap::map(&files[1])?];
    let right = maps.iter().all(|map| map[..300_000] == all[..]) && maps[0][300_000..].iter().all(|byte| *byte == 0);
    check("files in pieces are the same", right && maps[0].len() == 1 << 20)?;
    drop((maps, files));
    remove(&paths[0])?;
    remove(&paths[1])
}

fn private(folder: &str) -> Result<()> {
    let file = File::open(format!("{folder}/big"))?;
    let mut copy: MmapMut = MmapOptions::new().map_copy(&file)?;
    copy[0] ^= 0xff;
    copy[3 << 20..(3 << 20) + 5000].fill(7);
    let mut should = bytes(BIG);
    should[0] ^= 0xff;
    should[3 << 20..(3 << 20) + 5000].fill(7);
    check("what is written to a copy is there", copy[..] == should[..])?;
    check("and not in the file", fs::read(format!("{folder}/big"))? == bytes(BIG))?;
    let map = Mmap::map(&file)?;
    check("nor in another mapping", map[..] == bytes(BIG)[..])?;
    let fixed = copy.make_read_only()?;
    check("a copy that is fixed stays as it is", fixed[..] == should[..])?;
    let mut loose = map.make_mut()?;
    loose[BIG - 1] = 9;
    check("a mapping can become a copy", loose[BIG - 1] == 9 && loose[1] == byte(1))
}

/// What becomes of the file takes nothing away from a mapping, and puts nothing strange into it.
fn file_goes_on(folder: &str) -> Result<()> {
    let path = format!("{folder}/changing");
    let mut file = make(&path, BIG)?;
    let map = Mmap::map(&file)?;
    check("touched", map[0] == byte(0))?;
    file.write_all(&[!byte(0)])?;
    check("what has been seen stays", map[0] == byte(0))?;
    drop(map);

    let map = Mmap::map(&file)?;
    remove(&path)?;
    drop(file);
    // Room that another file gets, if it is given back.
    fs::write(format!("{folder}/other"), vec![0xee; BIG])?;
    let mut should = bytes(BIG);
    should[0] = !byte(0);
    check("a file without a name is still there", map[..] == should[..])?;
    drop(map);
    remove(&format!("{folder}/other"))?;

    let mut file = make(&path, 70_000)?;
    let map = Mmap::map(&file)?;
    for _ in 0..100 {
        file.write_all(&[1; 70_000])?;
    }
    check("a file may grow under a mapping", map.len() == 70_000 && [1, byte(69_999)].contains(&map[69_999]))?;
    let new = make(&format!("{folder}/new"), BIG)?;
    let kept = Mmap::map(&new)?;
    make(&path, BIG)?.write_all(&[0xaa; 100])?;
    fs::rename(&path, format!("{folder}/new"))?;
    check("a file that is replaced is still there", kept[..] == bytes(BIG)[..])?;
    drop((kept, new, map));
    remove(&format!("{folder}/new"))
}

/// What is cut off, and the room that it had. (Of a file of the host's it is gone.)
pub(crate) fn cut(folder: &str) -> Result<()> {
    let path = format!("{folder}/changing");
    let file = make(&path, BIG)?;
    let map = Mmap::map(&file)?;
    file.set_len(10_000)?;
    fs::write(format!("{folder}/other"), vec![0xee; BIG])?;
    file.set_len(0)?;
    file.set_len(1 << 20)?;
    fs::write(format!("{folder}/another"), vec![0xee; 1 << 20])?;
    let right = map.iter().enumerate().all(|(place, found)| *found == byte(place) || *found == 0);
    check("what has been cut off is as it was, or zero", right)?;
    drop((map, file));
    for name in ["changing", "other", "another"] {
        remove(&format!("{folder}/{name}"))?;
    }
    Ok(())
}

/// Hostcalls that copy from a mapping, and into one.
fn in_calls(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    let mut from = File::open(&path)?;
    let map = Mmap::map(&from)?;
    fs::write(format!("{folder}/written"), &map[..])?;
    check("a mapping can be written to a file", fs::read(format!("{folder}/written"))? == bytes(BIG))?;
    let mut itself = File::options().read(true).write(true).open(format!("{folder}/written"))?;
    let map = Mmap::map(&itself)?;
    itself.write_all(&map[4096..])?;
    check(
        "and over the file that it maps",
        fs::read(format!("{folder}/written"))?[..BIG - 4096] == bytes(BIG)[4096..],
    )?;
    let mut copy = MmapOptions::new().map_copy(&itself)?;
    let mut done = 0;
    while done < BIG {
        done += from.read(&mut copy[done..])?;
    }
    check("and read into", copy[..] == bytes(BIG)[..])?;
    drop((map, copy));
    remove(&format!("{folder}/written"))
}

fn orders(folder: &str) -> Result<()> {
    let file = File::open(format!("{folder}/big"))?;
    for advice in [Advice::Normal, Advice::Random, Advice::Sequential, Advice::WillNeed] {
        let map = Mmap::map(&file)?;
        map.advise(advice)?;
        let mut place = 7usize;
        for _ in 0..4000 {
            place = (place * 1_103_515_245 + 12_345) % BIG;
            if map[place] != byte(place) {
                return Err(format!("wrong at {place} with {advice:?}").into());
            }
        }
        check(&format!("{advice:?}: it shows the file in any order"), map[..] == bytes(BIG)[..])?;
    }
    let map = Mmap::map(&file)?;
    map.advise_range(Advice::WillNeed, 1 << 20, 4 << 20)?;
    check("a part of it can be asked for", map[2 << 20] == byte(2 << 20))?;
    check("but not what it has not", map.advise_range(Advice::WillNeed, BIG, 1).is_err())
}

/// Eight threads touch the same mapping, and mappings of their own.
pub(crate) fn many_threads(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    let shared = Mmap::map(&File::open(&path)?)?;
    let right = thread::scope(|scope| {
        let threads: Vec<_> = (0..8usize)
            .map(|thread| {
                let (path, shared) = (&path, &shared);
                scope.spawn(move || {
                    let own = Mmap::map(&File::open(path).expect("a file")).expect("a mapping");
                    let mut place = thread * 104_729;
                    (0..20_000).all(|_| {
                        place = (place * 1_103_515_245 + 12_345) % BIG;
                        shared[place] == byte(place) && own[BIG - 1 - place] == byte(BIG - 1 - place)
                    })
                })
            })
            .collect();
        threads.into_iter().all(|thread| thread.join().expect("it ends"))
    });
    check("eight threads see the same", right && shared[..] == bytes(BIG)[..])
}

fn refused(folder: &str) -> Result<()> {
    let path = format!("{folder}/big");
    let written = File::options().write(true).open(&path)?;
    check("a file that is not open for reading is not mapped", Mmap::map(&written).is_err())?;
    check("nor a directory", Mmap::map(&File::open(folder)?).is_err())?;
    let file = File::open(&path)?;
    let far = [(0, BIG + 1), (BIG as u64, 1), (1 << 62, 1), (0, usize::MAX), (1, usize::MAX - 1)];
    let none = far.iter().all(|(offset, len)| MmapOptions::new().offset(*offset).len(*len).map(&file).is_err());
    check("nor what the file does not have", none)?;
    check("a file without bytes maps to none", Mmap::map(&make(&format!("{folder}/empty"), 0)?)?.is_empty())?;
    remove(&format!("{folder}/empty"))
}
