//! An ordinary Rust program for `wasm32-wasip1` and `wasm32-wasip2`: arguments, environment, clocks, randomness, files, directories,
//! standard streams.
//!
//! It knows nothing of Monohull. Each line says what was tried and what came of it, so that a test can compare.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    println!("arguments: {arguments:?}");
    println!("GREETING: {:?}", std::env::var("GREETING").ok());

    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(3));
    println!("slept: {}", start.elapsed() >= Duration::from_millis(3));
    println!("after 2020: {}", SystemTime::now() > SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800));

    // Its hasher is seeded with random bytes.
    let mut words: HashMap<&str, u32> = HashMap::new();
    "one fish two fish".split(' ').for_each(|word| *words.entry(word).or_default() += 1);
    println!("fish: {}", words["fish"]);

    files()?;
    println!("devices: {}", devices()?);
    println!("connected: {:?}", TcpStream::connect(("127.0.0.1", 1)).map_err(|error| error.kind()).err());
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    println!("standard input: {input:?}");
    eprintln!("standard error");
    if arguments.iter().any(|argument| argument == "--end=status") {
        std::process::exit(7);
    }
    if arguments.iter().any(|argument| argument == "--end=panic") {
        panic!("as asked");
    }
    Ok(())
}

/// Files and directories beneath `/work`.
fn files() -> std::io::Result<()> {
    fs::create_dir("/work/folder")?;
    fs::write("/work/folder/first", "first line\nsecond line\n")?;
    OpenOptions::new().append(true).open("/work/folder/first")?.write_all(b"third line\n")?;
    let mut file = OpenOptions::new().read(true).write(true).open("/work/folder/first")?;
    file.seek(SeekFrom::Start(6))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    println!("from the 6th byte: {text:?}");
    file.set_len(10)?;
    file.sync_all()?;
    println!("cut to: {}", file.metadata()?.len());
    let day = Duration::from_secs(86_400);
    file.set_modified(SystemTime::UNIX_EPOCH + day)?;
    let since = file.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    println!("modified: {}", since.as_secs());
    drop(file);

    fs::rename("/work/folder/first", "/work/folder/second")?;
    fs::write("/work/folder/third", [0u8; 100])?;
    let mut names: Vec<_> = fs::read_dir("/work/folder")?
        .map(|entry| entry.map(|entry| (entry.file_name(), entry.file_type().map(|kind| kind.is_file()).ok())))
        .collect::<Result<_, _>>()?;
    names.sort();
    println!("entries: {names:?}");
    println!("missing: {:?}", File::open("/work/folder/first").map_err(|error| error.kind()).err());
    // Rust has no kind of its own for this number of WASI.
    println!("not empty: {:?}", fs::remove_dir("/work/folder").map_err(|error| error.raw_os_error()).err());
    fs::remove_file("/work/folder/second")?;
    fs::remove_file("/work/folder/third")?;
    fs::remove_dir("/work/folder")?;
    fs::create_dir_all("/work/tree/branch")?;
    fs::write("/work/tree/branch/leaf", "green")?;
    fs::remove_dir_all("/work/tree")?;
    println!("left: {}", fs::read_dir("/work")?.count());
    Ok(())
}

/// What is read from devices: null has nothing, zero has zeros, and random bytes are others each time.
fn devices() -> std::io::Result<String> {
    fs::write("/dev/null", "gone")?;
    let nothing = fs::read("/dev/null")?;
    let some = |name: &str| -> std::io::Result<[u8; 16]> {
        let mut bytes = [1; 16];
        File::open(name)?.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let random = some("/dev/urandom")? != some("/dev/random")?;
    let is_file = fs::metadata("/dev/null")?.is_file() || File::open("/dev/zero")?.metadata()?.is_file();
    let missing = File::open("/dev/none").map_err(|error| error.kind()).err();
    OpenOptions::new().append(true).open("/dev/stdout")?.write_all(b"to a stream\n")?;
    Ok(format!("{} {:?} {random} {is_file} {missing:?}", nothing.len(), some("/dev/zero")? == [0; 16]))
}
