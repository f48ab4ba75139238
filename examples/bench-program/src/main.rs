//! Measures what a usual program spends its time with. The scenario `programs` of `monohull-bench` runs it as a function and on the host.
//!
//! It prints a line `NAME: NANOSECONDS` for each kernel, per operation. The arguments are the size (1 is the full one, larger numbers
//! divide it) and a folder for files.

use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use std::{env, io, process, thread};

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A kernel does so many operations.
type Kernel = fn(usize);

const COMPUTING: [(&str, usize, Kernel); 9] = [
    ("map of numbers", 1_000_000, map_of_numbers),
    ("map of words", 1_000_000, map_of_words),
    ("sort", 1_000_000, sort),
    ("boxes, one at a time", 5_000_000, boxes_in_turn),
    ("boxes, all at once", 1_000_000, boxes_at_once),
    ("buffers of 64 to 4096 bytes", 200_000, buffers),
    ("vectors that grow", 50_000, vectors),
    ("mutex", 5_000_000, mutex),
    ("thread, started and joined", 500, threads),
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [size, folder] = &arguments[..] else {
        eprintln!("usage: bench-program SIZE FOLDER");
        process::exit(2);
    };
    let size = size.parse::<usize>().map_err(io::Error::other)?.max(1);
    for (name, count, kernel) in COMPUTING {
        let count = (count / size).max(1);
        measure(name, count, || kernel(count));
    }
    files(folder, (200_000 / size).max(1))
}

fn measure<T>(name: &str, count: usize, kernel: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = kernel();
    println!("{name}: {:.1}", start.elapsed().as_nanos() as f64 / count as f64);
    done
}

fn map_of_numbers(count: usize) {
    let (mut numbers, mut map) = (Numbers(1), HashMap::new());
    for at in 0..count {
        map.insert(numbers.next(), at);
    }
    black_box(map);
}

fn map_of_words(count: usize) {
    let (mut numbers, mut map) = (Numbers(2), HashMap::<String, usize>::new());
    for _ in 0..count {
        *map.entry(format!("word {}", numbers.next() % 50_000)).or_default() += 1;
    }
    black_box(map);
}

fn sort(count: usize) {
    let mut numbers = Numbers(3);
    let mut all: Vec<u64> = (0..count).map(|_| numbers.next()).collect();
    all.sort();
    black_box(all);
}

fn boxes_in_turn(count: usize) {
    for at in 0..count {
        drop(black_box(Box::new(at)));
    }
}

fn boxes_at_once(count: usize) {
    let all: Vec<Box<usize>> = (0..count).map(Box::new).collect();
    black_box(all);
}

fn buffers(count: usize) {
    let mut numbers = Numbers(4);
    let mut kept: Vec<Vec<u8>> = vec![Vec::new(); 1000];
    for at in 0..count {
        kept[at % 1000] = black_box(vec![1; 64 + (numbers.next() % 4033) as usize]);
    }
}

fn vectors(count: usize) {
    for at in 0..count {
        let mut vector = Vec::new();
        for number in 0..100 {
            vector.push(black_box(at + number));
        }
        black_box(vector);
    }
}

fn mutex(count: usize) {
    let value = Mutex::new(0);
    for at in 0..count {
        *value.lock().expect("not poisoned") += black_box(at);
    }
    black_box(value);
}

fn threads(count: usize) {
    let sum = Arc::new(Mutex::new(0));
    for at in 0..count {
        let theirs = sum.clone();
        thread::spawn(move || *theirs.lock().expect("not poisoned") += at).join().expect("no panic");
    }
}

fn files(folder: &str, count: usize) -> io::Result<()> {
    const LENGTH: usize = 1 << 20;
    let path = format!("{folder}/bench-program");
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    file.write_all(&vec![7; LENGTH])?;
    let mut bytes = [0; 16];
    measure("file, 16 bytes at a place", count, || {
        (0..count).try_for_each(|at| file.read_exact_at(&mut bytes, (at * 64 % (LENGTH - 16)) as u64))
    })?;
    let mut block = vec![0; 64 << 10];
    let blocks = (count / 4).max(1);
    measure("file, blocks of 64 KiB", blocks, || {
        (0..blocks).try_for_each(|at| {
            if at % (LENGTH / block.len()) == 0 {
                file.seek(SeekFrom::Start(0))?;
            }
            file.read_exact(&mut block)
        })
    })?;
    let source = vec![7; LENGTH];
    measure("64 KiB copied", blocks, || {
        for at in 0..blocks {
            let from = &source[at * block.len() % LENGTH..][..block.len()];
            block.copy_from_slice(black_box(from));
            black_box(&mut block);
        }
    });
    let opened = (count / 20).max(1);
    measure("file, opened and closed", opened, || (0..opened).try_for_each(|_| File::open(&path).map(drop)))?;
    measure("two yields", opened, || (0..2 * opened).for_each(|_| thread::yield_now()));
    std::fs::remove_file(&path)
}
