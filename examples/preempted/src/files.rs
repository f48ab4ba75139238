//! Files in memory that are written, cut, extended, removed and made again, in an order that looks random and is always the same. What each page
//! must hold is known at any time, and is looked at again and again.

use crate::memory::{Random, check, fill, word};
use monohull_abi::layout::PAGE;
use monohull_std::fs::{self, File};
use monohull_std::io::{Read, Seek, SeekFrom, Write};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;

/// The most files at a time.
const FILES: u64 = 12;
/// The most pages of one: more than a chunk has.
const PAGES: u64 = 600;
/// Pages of the file of which one changes.
const LARGE: u64 = 4096;
/// What a file has had that is removed.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// A file that is open, and what each of its pages was filled from.
struct Known {
    path: String,
    file: File,
    seeds: Vec<u64>,
}

/// Does so many steps; a number that depends on each.
pub(super) fn change(steps: u64) -> u64 {
    let (mut random, mut files, mut made) = (Random(0x2545_f491_4f6c_dd1d), Vec::new(), 0);
    for _ in 0..steps {
        step(&mut random, &mut files, &mut made);
    }
    files.iter_mut().for_each(Known::check);
    let seeds = files.iter().flat_map(|known| &known.seeds);
    seeds.fold(random.next(), |sum, seed| sum.rotate_left(7).wrapping_add(*seed))
}

fn step(random: &mut Random, files: &mut Vec<Known>, made: &mut u64) {
    let kind = if files.is_empty() { 0 } else { random.below(12) };
    if kind == 0 && (files.len() as u64) < FILES {
        *made += 1;
        return files.push(Known::new(format!("/work/{made}"), Vec::new()));
    }
    let index = random.below(files.len() as u64) as usize;
    // Small ones are more frequent.
    let pages = PAGES >> random.below(10);
    let known = &mut files[index];
    match kind {
        0..=6 => {
            let (page, seed) = (random.below(pages), random.seed());
            known.write(page, seed);
        }
        7 => known.resize(random.below(pages)),
        // As others know it that have it open, whatever its name.
        8 => known.rename(random),
        9 => {
            let known = files.swap_remove(index);
            fs::remove_file(&known.path).expect("it is there");
        }
        _ => known.check(),
    }
}

impl Known {
    fn new(path: String, seeds: Vec<u64>) -> Known {
        let file = File::create_new(&path).expect("there is room");
        Known { path, file, seeds }
    }

    fn write(&mut self, page: u64, seed: u64) {
        if self.seeds.len() as u64 <= page {
            self.seeds.resize(page as usize + 1, 0);
        }
        self.seeds[page as usize] = seed;
        let mut bytes = [0; PAGE as usize];
        fill(&mut bytes, &[seed]);
        self.file.seek(SeekFrom::Start(page * PAGE)).expect("it is a file");
        self.file.write_all(&bytes).expect("there is room");
    }

    fn resize(&mut self, pages: u64) {
        self.file.set_len(pages * PAGE).expect("there is room");
        self.seeds.resize(pages as usize, 0);
    }

    fn rename(&mut self, random: &mut Random) {
        let path = format!("/work/r{}", random.next());
        fs::rename(&self.path, &path).expect("it is there");
        self.path = path;
    }

    fn check(&mut self) {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).expect("it is a file");
        self.file.read_to_end(&mut bytes).expect("there is memory");
        check(&bytes, &self.seeds);
    }
}

/// Naps so many times with memory that stays as it is and an open file that changes; a number that depends on all of its pages.
pub(super) fn change_between_naps(naps: u64) -> u64 {
    let seeds: Vec<u64> = (1..=8).collect();
    let mut kept = vec![0; seeds.len() * PAGE as usize];
    fill(&mut kept, &seeds);
    let mut known = Known::new("/work/known".to_owned(), Vec::new());
    (0..4).for_each(|page| known.write(page, page + 1));
    for nap in 0..naps {
        thread::sleep(Duration::from_millis(40));
        known.check();
        known.write(nap % 4, nap + 5);
        println!("after nap {nap}");
    }
    known.check();
    check(&kept, &seeds);
    known.seeds.iter().fold(0, |sum, seed| sum.rotate_left(7).wrapping_add(*seed))
}

/// Writes a page of a large file so many times; a number that depends on all of its pages. There is a hole in another file, and one that has been
/// removed and whose pages were all the same.
pub(super) fn change_one_page(rounds: u64) -> u64 {
    let mut removed = Known::new("/work/removed".to_owned(), Vec::new());
    (0..8).for_each(|page| removed.write(page, SECRET));
    fs::remove_file(&removed.path).expect("it is there");
    drop(removed);
    let mut sparse = Known::new("/work/sparse".to_owned(), Vec::new());
    sparse.write(LARGE, 1);
    let mut large = Known::new("/work/large".to_owned(), Vec::new());
    (0..LARGE).for_each(|page| large.write(page, page + 1));
    (0..rounds).for_each(|round| large.write(LARGE / 2, round));
    large.check();
    sparse.check();
    large.seeds.iter().enumerate().fold(0, |sum, (index, seed)| sum ^ word(*seed, index).rotate_left(3))
}
