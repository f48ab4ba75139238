//! Crates for numbers, text and formats, threads of rayon, and coroutines of corosensei, which have stacks of their own.
//!
//! Each crate prints one line, with results that do not change from run to run.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fs::{self, File};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, thread};

use corosensei::{Coroutine, CoroutineResult, Yielder};
use memmap2::{MmapMut, MmapOptions};
use minijinja::context;
use nalgebra::{Matrix3, Vector3};
use ndarray::{Array2, Axis};
use quick_xml::events::Event;
use rayon::prelude::*;

type Outcome = Result<String, Box<dyn Error>>;
/// A crate's name, and what it does.
type Tour = (&'static str, fn() -> Outcome);

fn main() -> Result<(), Box<dyn Error>> {
    // With the argument `--mapped=…`, that file is mapped and stays, and nothing else is done.
    if let Some(path) = env::args().find_map(|argument| Some(PathBuf::from(argument.strip_prefix("--mapped=")?))) {
        println!("memmap2: {}", mapped(&path)?);
        return Ok(());
    }
    let crates: [Tour; 9] = [
        ("rayon", parallel),
        ("ndarray", arrays),
        ("nalgebra", matrices),
        ("fancy-regex", patterns),
        ("quick-xml", elements),
        ("minijinja", templates),
        ("pulldown-cmark", markdown),
        ("memmap2", mappings),
        ("corosensei", coroutines),
    ];
    for (name, run) in crates {
        println!("{name}: {}", run()?);
    }
    Ok(())
}

fn parallel() -> Outcome {
    let squares: u64 = (1..=100_000_u64).into_par_iter().map(|number| number * number).sum();
    let mut words: Vec<String> =
        (0..5000_u32).map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761))).collect();
    words.par_sort();
    let sorted = words.is_sorted();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build()?;
    let mut threads = pool.broadcast(|context| context.index());
    threads.sort_unstable();
    let (one, other) = pool.join(|| 6 * 7, || "joined");
    Ok(format!("{squares}, {sorted}, {threads:?}, {one} {other}"))
}

fn arrays() -> Outcome {
    let array = Array2::from_shape_fn((3, 4), |(row, column)| (row * 4 + column) as f64);
    let product = array.dot(&array.t());
    Ok(format!("{} {}", array.sum_axis(Axis(0)), product.diag()))
}

fn matrices() -> Outcome {
    let matrix = Matrix3::new(2.0, 1.0, 0.0, 1.0, 3.0, 1.0, 0.0, 1.0, 4.0);
    let solved = matrix.lu().solve(&Vector3::new(4.0, 10.0, 14.0)).ok_or("singular")?;
    let values = matrix.symmetric_eigenvalues();
    Ok(format!("{:.3} {:.3} {:.3}, trace {:.3}", solved.x, solved.y, solved.z, values.sum()))
}

fn patterns() -> Outcome {
    let twice = fancy_regex::Regex::new(r"\b(\w+) \1\b(?! again)")?;
    let found: Result<Vec<_>, _> = twice.find_iter("the the ship ship again and and").collect();
    Ok(found?.iter().map(|found| found.as_str()).collect::<Vec<_>>().join(", "))
}

fn elements() -> Outcome {
    let mut reader =
        quick_xml::Reader::from_str("<fleet><ship mass='3'>Argo</ship><ship mass='4'>&lt;Dove&gt;</ship></fleet>");
    let (mut mass, mut ships) = (0, 0);
    loop {
        match reader.read_event()? {
            Event::Start(element) if element.name().as_ref() == b"ship" => {
                let value = element.try_get_attribute("mass")?.ok_or("no mass")?;
                mass += value.unescape_value()?.parse::<u32>()?;
            }
            Event::End(element) if element.name().as_ref() == b"ship" => ships += 1,
            Event::Eof => break Ok(format!("{ships} ships, mass {mass}")),
            _ => {}
        }
    }
}

fn templates() -> Outcome {
    let mut environment = minijinja::Environment::new();
    environment.add_template(
        "list",
        "{% for ship in ships if ship.mass > 2 %}{{ loop.index }}. {{ ship.name|upper }} {% endfor %}",
    )?;
    let ships = [
        context! { name => "Argo", mass => 3 },
        context! { name => "raft", mass => 1 },
        context! { name => "Dove", mass => 4 },
    ];
    Ok(environment.get_template("list")?.render(context! { ships })?.trim().to_owned())
}

fn markdown() -> Outcome {
    let mut page = String::new();
    pulldown_cmark::html::push_html(&mut page, pulldown_cmark::Parser::new("# A *ship*\n\n- one\n- `two`\n"));
    Ok(page.replace('\n', ""))
}

/// In a file that is removed afterwards.
fn mappings() -> Outcome {
    let path = env::temp_dir().join("mapped.bin");
    let said = mapped(&path)?;
    fs::remove_file(&path)?;
    Ok(said)
}

/// A file that is stored to through a shared mapping; a part of it; a copy whose stores are its own; and memory without a file.
#[allow(unsafe_code, reason = "a mapping is unsafe if others change the file meanwhile")]
fn mapped(path: &Path) -> Outcome {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(12288)?;
    // SAFETY: nothing else has this file.
    let mut all = unsafe { MmapMut::map_mut(&file)? };
    all[..4].copy_from_slice(b"Argo");
    all[8192..8196].copy_from_slice(b"Dove");
    all.flush()?;
    // SAFETY: as above.
    let part = unsafe { MmapOptions::new().offset(8192).len(4).map(&file)? };
    drop(all);
    // SAFETY: as above.
    let mut copy = unsafe { MmapOptions::new().map_copy(&file)? };
    copy[0] = b'B';
    part.advise(memmap2::Advice::Sequential)?;
    let mut anonymous = MmapMut::map_anon(1 << 20)?;
    anonymous[4096] = 7;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (ship, copied, sum) =
        (text(&part), text(&copy[..4]), anonymous.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    let read = fs::read(path)?;
    Ok(format!("{} bytes, ship {ship}, own copy {copied}, file {}, anonymous {sum}", read.len(), text(&read[..4])))
}

thread_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Lies on a coroutine's stack, and notes that it was dropped.
struct Local(&'static str);

impl Drop for Local {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
    }
}

fn coroutines() -> Outcome {
    let here = doubled();
    let there = thread::spawn(doubled).join().map_err(|_| "a panic")?;
    // In turns with another, whose panic is caught on its own stack; in between, its stack waits within `catch_unwind`.
    panic::set_hook(Box::new(|_| {}));
    let mut careful = Coroutine::new(|yielder: &Yielder<(), u32>, ()| {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let _local = Local("by a panic");
            yielder.suspend(1);
            panic!("inside");
        }));
        caught.is_err_and(|why| why.downcast_ref() == Some(&"inside"))
    });
    let waits = matches!(careful.resume(()), CoroutineResult::Yield(1));
    // One that nothing catches there comes out of `resume`.
    let mut careless = Coroutine::new(|_: &Yielder<(), ()>, ()| panic!("outside"));
    let out = panic::catch_unwind(AssertUnwindSafe(|| careless.resume(()))).is_err();
    let caught = matches!(careful.resume(()), CoroutineResult::Return(true));
    drop(panic::take_hook());
    // What lies on the stack of one that has not ended is dropped with it.
    let mut unfinished = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        let _local = Local("unfinished");
        yielder.suspend(());
    });
    unfinished.resume(());
    drop(unfinished);
    let dropped = DROPPED.with_borrow(|dropped| dropped.join(", "));
    Ok(format!("{here}; {there}; {}; dropped: {dropped}", waits && caught && out))
}

/// What a coroutine gives, and a thread-local variable that it counts in, which is the thread's.
fn doubled() -> String {
    let mut doubling = Coroutine::new(|yielder: &Yielder<u32, u32>, mut number| {
        for _ in 0..3 {
            STEPS.set(STEPS.get() + 1);
            // The system is called from this stack, too.
            thread::sleep(Duration::from_millis(1));
            number = yielder.suspend(2 * number);
        }
        number
    });
    let mut given = Vec::new();
    let last = loop {
        match doubling.resume(given.len() as u32 + 1) {
            CoroutineResult::Yield(number) => given.push(number),
            CoroutineResult::Return(number) => break number,
        }
    };
    format!("{given:?} and {last} in {} steps", STEPS.get())
}
