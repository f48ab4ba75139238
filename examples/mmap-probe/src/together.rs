//! Two instances and one file: one has it mapped, the other writes to it.

use crate::{BIG, Result, byte, make};
use monohull_std::fs::File;
use monohull_std::io::Write;
use monohull_std::mmap::{Mmap, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;

/// What the other one writes everywhere.
const NEW: u8 = 0xaa;
const PAGE: usize = 4096;

/// Waits until there is a file of this name.
fn wait_for(path: &str) {
    while File::open(path).is_err() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a page was seen before the other one wrote: every page of the first megabyte, and every seventh of the rest.
fn is_seen(place: usize) -> bool {
    place < 1 << 20 || (place / PAGE).is_multiple_of(7)
}

/// Maps the file, looks at some of it, and again when the other one has written.
pub(crate) fn watch(folder: &str) -> Result<()> {
    let path = format!("{folder}/shared");
    let file = make(&path, BIG)?;
    let maps = [Mmap::map(&file)?, Mmap::map(&file)?, MmapOptions::new().offset(2 << 20).map(&file)?];
    let mut copy = MmapOptions::new().map_copy(&file)?;
    let places = || (0..BIG).step_by(PAGE).filter(|place| is_seen(*place));
    let right = |map: &[u8], offset: usize| {
        places().filter(|place| *place >= offset).all(|place| map[place - offset] == byte(place))
    };
    if !(right(&maps[0], 0) && right(&maps[1], 0) && right(&maps[2], 2 << 20) && right(&copy, 0)) {
        return Err("a mapping is not the file".into());
    }
    copy[5] = 55;
    println!("seen");
    make(&format!("{folder}/seen"), 1)?;
    wait_for(&format!("{folder}/written"));
    let stays = |map: &[u8], offset: usize| {
        map.iter().copied().enumerate().find(|(place, found)| {
            let place = place + offset;
            *found != byte(place) && (is_seen(place - place % PAGE) || *found != NEW)
        })
    };
    for (map, offset) in [(&maps[0], 0), (&maps[1], 0), (&maps[2], 2 << 20)] {
        if let Some((place, found)) = stays(map, offset) {
            return Err(format!("byte {place} from {offset} on is {found}").into());
        }
    }
    let own = (copy[5], copy[4], copy[6]);
    if own != (55, byte(4), byte(6)) {
        return Err(format!("the copy has {own:?}").into());
    }
    println!("what was seen stays");
    let now = Mmap::map(&file)?;
    match now.iter().all(|found| *found == NEW) {
        true => println!("a new mapping shows what was written"),
        false => return Err("a new mapping shows what was there before".into()),
    }
    Ok(())
}

/// Writes over all of the file when the other one has looked at it.
pub(crate) fn change(folder: &str) -> Result<()> {
    wait_for(&format!("{folder}/seen"));
    let mut file = File::options().write(true).open(format!("{folder}/shared"))?;
    let mut done = 0;
    for piece in [1, 4095, 100_000, 1 << 20].iter().cycle() {
        let piece = (*piece).min(BIG - done);
        file.write_all(&vec![NEW; piece])?;
        done += piece;
        if done == BIG {
            break;
        }
    }
    make(&format!("{folder}/written"), 1)?;
    println!("written");
    Ok(())
}
