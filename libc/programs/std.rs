//! The real std of the host's target, as it comes with the toolchain: what it asks of a libc.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, panic, thread};

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(3) };
    static NOTED: RefCell<Vec<Dropped>> = const { RefCell::new(Vec::new()) };
}

static DROPPED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Uses as many KiB of the stack.
fn deep(kib: usize) -> usize {
    let used = std::hint::black_box([kib; 1024 / size_of::<usize>()]);
    if kib == 1 { used[0] } else { deep(kib - 1) + 1 + 0 * used[1] }
}

fn threads() {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let sender = sender.clone();
            let named = thread::Builder::new().name(format!("worker {number}"));
            named.spawn(move || {
                COUNT.set(COUNT.get() + number);
                NOTED.with_borrow_mut(|noted| noted.push(Dropped));
                sender.send(COUNT.get()).unwrap();
                thread::current().name().map(str::to_owned)
            })
        })
        .map(Result::unwrap)
        .collect();
    let names: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    assert_eq!((names[7].as_str(), receiver.iter().take(8).sum::<u32>(), COUNT.get()), ("worker 7", 52, 3));
    assert_eq!(DROPPED.load(std::sync::atomic::Ordering::Relaxed), 8);
    assert!(thread::available_parallelism().is_ok());
    for (size, depth) in [(8 << 20, 7000), (64 << 10, 30)] {
        let sized = thread::Builder::new().stack_size(size).spawn(move || deep(depth));
        assert_eq!(sized.unwrap().join().unwrap(), depth);
    }
    let refused = thread::Builder::new().stack_size(1 << 40).spawn(|| ()).map(drop);
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let mut numbers = vec![1, 2, 3];
    thread::scope(|scope| {
        scope.spawn(|| numbers.push(4));
    });
    assert_eq!(numbers.len(), 4);
}

fn panics() {
    panic::set_hook(Box::new(|_| {}));
    let caught = panic::catch_unwind(|| panic!("caught {}", std::hint::black_box(1))).unwrap_err();
    assert_eq!(caught.downcast_ref::<String>().unwrap(), "caught 1");
    let dropped = DROPPED.load(std::sync::atomic::Ordering::Relaxed);
    let joined = thread::spawn(|| {
        let _kept = Dropped;
        panic!("in a thread")
    });
    assert!(joined.join().is_err());
    assert_eq!(DROPPED.load(std::sync::atomic::Ordering::Relaxed), dropped + 1);
    let _ = panic::take_hook();
    // Addresses alone: the image's symbols are not in the program's reach.
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    assert!(trace.lines().count() >= 3, "{trace}");
}

fn files() -> std::io::Result<()> {
    fs::create_dir_all("/a/b/c")?;
    fs::write("/a/b/text", "one\ntwo\n")?;
    let mut file = fs::OpenOptions::new().read(true).append(true).open("/a/b/text")?;
    file.write_all(b"three\n")?;
    file.seek(SeekFrom::Start(4))?;
    let lines: Vec<_> = std::io::BufReader::new(file.try_clone()?).lines().collect::<Result<_, _>>()?;
    assert_eq!(lines, ["two", "three"]);
    let metadata = fs::metadata("/a/b/text")?;
    assert!(metadata.is_file() && metadata.len() == 14 && metadata.modified()? <= SystemTime::now());
    let mut names: Vec<_> = fs::read_dir("/a/b")?.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["c", "text"]);
    assert_eq!(fs::copy("/a/b/text", "/copy")?, 14);
    fs::rename("/copy", "/renamed")?;
    assert_eq!(fs::canonicalize("/a/../renamed")?.to_str(), Some("/renamed"));
    assert_eq!(fs::read("/none").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    fs::remove_dir_all("/a")?;
    assert!(!fs::exists("/a")?);
    Ok(())
}

fn network() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"over tcp")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    assert_eq!(text, "over tcp");
    echo.join().unwrap();
    // The std connects without waiting, and polls, when there is a time limit. The listener is closed by now.
    let refused = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(10))?;
    assert_eq!(listener.accept()?.1, stream.local_addr()?);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let arguments: Vec<_> = std::env::args().collect();
    assert_eq!(arguments, ["program", "--name=value"]);
    assert_eq!(std::env::var("GREETING").as_deref(), Ok("hello"));
    let words: HashMap<_, _> = (0..1000).map(|number| (number.to_string(), number)).collect();
    assert_eq!(words["777"], 777);
    let start = Instant::now();
    thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
    threads();
    panics();
    files().unwrap();
    network().unwrap();
    let input: Vec<_> = std::io::stdin().lines().map(Result::unwrap).collect();
    assert_eq!(input, ["input"]);
    println!("std runs");
    0
}
