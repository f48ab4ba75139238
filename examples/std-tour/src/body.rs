// A walk through std, printing the same lines wherever it runs.
//
// `lib.rs` includes it as a function over monohull-std, `examples/with_std.rs` as a program over Rust's std. `visor/tests/e2e_examples/tour.rs`
// compares what the two print: a program runs as a function without a change. A file that is included cannot have `//!`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque, hash_map::Entry};
use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    threads();
    scoped_threads();
    ping_pong();
    many_waiters();
    readers_and_writers();
    pipeline();
    rendezvous();
    barrier();
    once();
    thread_locals();
    parking();
    collections();
    formatting();
    numbers()?;
    streams()?;
    time();
    memory();
    println!("end of the tour");
    Ok(())
}

fn threads() {
    let handles: Vec<_> = (0..8u64)
        .map(|n| thread::Builder::new().name(format!("worker-{n}")).spawn(move || (thread::current().name().map(str::to_owned), (1..=n).product::<u64>())))
        .collect();
    for handle in handles {
        let (name, factorial) = handle.unwrap().join().unwrap();
        println!("threads: {} says {factorial}", name.unwrap());
    }
    println!("threads: this is {:?}", thread::current().name());
    assert!(thread::available_parallelism().unwrap().get() >= 1);
    let ids: HashSet<_> = (0..50).map(|_| thread::spawn(|| thread::current().id()).join().unwrap()).collect();
    println!("threads: {} different ids", ids.len());
}

fn scoped_threads() {
    let text = String::from("one hull and many bulkheads");
    let mut lengths = vec![0; text.split(' ').count()];
    let total = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (word, length) in text.split(' ').zip(&mut lengths) {
            let total = &total;
            scope.spawn(move || {
                *length = word.len();
                total.fetch_add(word.len(), Ordering::Relaxed);
            });
        }
    });
    let longest = thread::scope(|scope| scope.spawn(|| text.split(' ').max_by_key(|word| word.len())).join().unwrap());
    println!("scope: {lengths:?}, {} in all, longest {longest:?}", total.into_inner());
}

fn ping_pong() {
    let table = Arc::new((Mutex::new((0, Vec::new())), Condvar::new()));
    let player = |me: usize, name: &'static str| {
        let table = table.clone();
        move || {
            let (state, turn) = &*table;
            for _ in 0..500 {
                let mut state = turn.wait_while(state.lock().unwrap(), |state| state.0 % 2 != me).unwrap();
                state.0 += 1;
                if state.0 > 996 {
                    state.1.push(name);
                }
                turn.notify_one();
            }
        }
    };
    let (ping, pong) = (thread::spawn(player(0, "ping")), thread::spawn(player(1, "pong")));
    ping.join().unwrap();
    pong.join().unwrap();
    let state = table.0.lock().unwrap();
    println!("condvar: {} turns, the last ones {:?}", state.0, state.1);

    let (lock, unnotified) = (Mutex::new(()), Condvar::new());
    let (_guard, result) = unnotified.wait_timeout(lock.lock().unwrap(), Duration::from_millis(5)).unwrap();
    println!("condvar: timed out {}", result.timed_out());
    println!("mutex: held, so {:?}", lock.try_lock().map(drop).map_err(|error| error.to_string().contains("poison")));
}

fn many_waiters() {
    let counter = Mutex::new(0u64);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    *counter.lock().unwrap() += 1;
                }
            });
        }
    });
    println!("mutex: {}", counter.into_inner().unwrap());
}

fn readers_and_writers() {
    let pair = RwLock::new((0u64, 0u64));
    let torn = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let mut pair = pair.write().unwrap();
                    pair.0 += 1;
                    pair.1 += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let pair = pair.read().unwrap();
                    if pair.0 != pair.1 {
                        torn.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("rwlock: {:?}, torn {}", *pair.read().unwrap(), torn.into_inner());
}

fn pipeline() {
    let (numbers, squares_in) = mpsc::channel::<u64>();
    let (squares, sums_in) = mpsc::sync_channel::<u64>(4);
    let squarers = thread::spawn(move || {
        for number in squares_in {
            squares.send(number * number).unwrap();
        }
    });
    let senders: Vec<_> = (0..4)
        .map(|part| {
            let numbers = numbers.clone();
            thread::spawn(move || (0..250).for_each(|n| numbers.send(part * 250 + n).unwrap()))
        })
        .collect();
    drop(numbers);
    let sum: u64 = sums_in.iter().sum();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    squarers.join().unwrap();
    println!("mpsc: the sum of the first 1000 squares is {sum}");

    let (sender, receiver) = mpsc::channel();
    println!("mpsc: {:?}, {:?}", receiver.try_recv(), receiver.recv_timeout(Duration::from_millis(2)));
    sender.send("last words").unwrap();
    drop(sender);
    println!("mpsc: {:?}, then {:?}, {:?}", receiver.recv(), receiver.try_recv() == Err(TryRecvError::Disconnected), receiver.recv());
    let (sender, receiver) = mpsc::channel();
    drop(receiver);
    println!("mpsc: {}", sender.send(1).unwrap_err());
}

fn rendezvous() {
    let (sender, receiver) = mpsc::sync_channel(0);
    let received = Arc::new(AtomicUsize::new(0));
    let theirs = received.clone();
    let receiving = thread::spawn(move || {
        let mut sum = 0;
        while let Ok(number) = receiver.recv() {
            sum += number;
            theirs.fetch_add(1, Ordering::SeqCst);
        }
        sum
    });
    for number in 0..100 {
        sender.send(number).unwrap();
        // The send before this one has been received, and counted before this one was.
        assert!(received.load(Ordering::SeqCst) >= number);
    }
    drop(sender);
    println!("mpsc: {} by rendezvous", receiving.join().unwrap());
}

fn barrier() {
    let barrier = Barrier::new(5);
    let (leaders, arrived) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for round in 1..=20 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::SeqCst);
                    assert!(arrived.load(Ordering::SeqCst) >= round * 5);
                }
            });
        }
    });
    println!("barrier: {} arrivals, {} leaders", arrived.into_inner(), leaders.into_inner());
}

static TABLE: LazyLock<Vec<u32>> = LazyLock::new(|| (0..10).map(|n| 1 << n).collect());
static NAME: OnceLock<String> = OnceLock::new();

fn once() {
    static START: Once = Once::new();
    let runs = AtomicUsize::new(0);
    thread::scope(|scope| {
        for n in 0..6 {
            let runs = &runs;
            scope.spawn(move || {
                START.call_once(|| {
                    thread::sleep(Duration::from_millis(2));
                    runs.fetch_add(1, Ordering::SeqCst);
                });
                assert_eq!(runs.load(Ordering::SeqCst), 1);
                NAME.get_or_init(|| format!("set by {} thread", if n < 6 { "one" } else { "another" }));
                assert_eq!(TABLE[9], 512);
            });
        }
    });
    println!("once: {} run, {:?}, second set {:?}", runs.into_inner(), NAME.get(), NAME.set(String::new()).is_err());
}

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(10) };
    static GUARD: RefCell<Option<Goodbye>> = RefCell::new(first_guard());
}

fn first_guard() -> Option<Goodbye> {
    None
}

struct Goodbye(mpsc::Sender<String>, &'static str);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.0.send(format!("{} is dropped", self.1));
    }
}

fn thread_locals() {
    let (sender, receiver) = mpsc::channel();
    COUNT.set(1);
    for name in ["first", "second"] {
        let sender = sender.clone();
        let handle = thread::spawn(move || {
            GUARD.with_borrow_mut(|guard| *guard = Some(Goodbye(sender, name)));
            COUNT.set(COUNT.get() + 1);
            COUNT.with(Cell::get)
        });
        println!("thread_local: {name} counts {}", handle.join().unwrap());
        println!("thread_local: {}", receiver.recv().unwrap());
    }
    println!("thread_local: here it is {}", COUNT.get());
}

fn parking() {
    let ready = Arc::new(AtomicBool::new(false));
    let theirs = ready.clone();
    let parked = thread::spawn(move || {
        while !theirs.load(Ordering::Acquire) {
            thread::park();
        }
        "unparked"
    });
    thread::sleep(Duration::from_millis(1));
    ready.store(true, Ordering::Release);
    parked.thread().unpark();
    println!("park: {}", parked.join().unwrap());
    thread::current().unpark();
    thread::park();
    thread::park_timeout(Duration::from_millis(1));
    thread::yield_now();
}

fn collections() {
    let text = "the cat and the dog and the bird";
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    println!("collections: {sorted:?}");
    if let Entry::Occupied(entry) = counts.entry("bird") {
        println!("collections: removed {:?}", entry.remove_entry());
    }
    counts.retain(|_, count| *count > 1);
    println!("collections: {:?}", counts.into_iter().collect::<BTreeMap<_, _>>());

    let large: HashMap<u64, String> = (0..20_000).map(|n| (n, n.to_string())).collect();
    println!("collections: {} entries, {:?}, {}", large.len(), large.get(&19_999), large[&7]);
    let (even, small): (HashSet<u32>, HashSet<u32>) = ((0..20).step_by(2).collect(), (0..6).collect());
    let mut both: Vec<_> = (&even & &small).into_iter().collect();
    both.sort_unstable();
    println!("collections: {both:?}");
    let mut heap: BinaryHeap<_> = [3, 1, 4, 1, 5, 9, 2, 6].into();
    let largest: Vec<_> = std::iter::from_fn(|| heap.pop()).take(3).collect();
    let mut queue: VecDeque<_> = (1..=5).collect();
    queue.rotate_left(2);
    let list: LinkedList<_> = queue.iter().rev().collect();
    println!("collections: {largest:?} {queue:?} {list:?}");
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Point {
    x: f64,
    y: f64,
    label: Option<&'static str>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:.2}, {:.2})", self.x, self.y)
    }
}

fn formatting() {
    let point = Point { x: 1.0 / 3.0, y: -2.5e10, label: Some("p\n") };
    println!("fmt: {point} {point:?}");
    println!("fmt: {point:#?}");
    println!("fmt: [{:>8}] [{:<8}] [{:^8}] [{:*^9}]", "right", "left", "mid", "star");
    println!("fmt: {:#x} {:#010b} {:o} {:e} {:+} {:08.3}", 255, 5, 64, 123456.0, 7, -3.1234);
    let (a, b, name) = ('a', 'b', "ß\t\u{1F6A2}");
    println!("fmt: {0}{1}{0} {name:?}", a, b);
    print!("fmt: in ");
    print!("pieces");
    println!();
    println!("fmt: {}", f64::NAN.max(0.1 + 0.2));
}

fn numbers() -> Result<(), std::num::ParseIntError> {
    let x = 2.0f64;
    println!("maths: {:.12} {:.12} {:.12}", x.sqrt(), x.ln(), x.exp());
    println!("maths: {:.12} {:.12} {:.12}", x.sin(), x.cos(), x.atan2(3.0));
    println!("maths: {} {} {} {}", x.powi(10), x.powi(-2), (2.5f64).round(), (-2.5f64).floor());
    println!("maths: {:.6} {:.6} {}", 2.0f32.powf(0.5), std::f32::consts::PI.sin().abs() < 1e-6, (7.0f64).rem_euclid(-3.0));
    println!("maths: {:.10} {}", std::f64::consts::E.ln(), (3.0f64).hypot(4.0));
    println!("maths: {:?} {:?}", "12x".parse::<i32>().map_err(|e| e.to_string()), u8::try_from(300).is_err());
    println!("maths: {} {:?} {}", i64::MAX.wrapping_add(1), 200u8.checked_add(100), "-77".parse::<i64>()?.rem_euclid(10));
    Ok(())
}

fn streams() -> io::Result<()> {
    let text = "first line\nsecond line\r\n\nlast";
    for line in io::BufReader::with_capacity(5, text.as_bytes()).lines() {
        println!("io: {:?}", line?);
    }
    let mut cursor = io::Cursor::new(Vec::new());
    write!(cursor, "hull-{}", 7)?;
    cursor.seek(SeekFrom::Start(2))?;
    cursor.write_all(b"LL")?;
    cursor.rewind()?;
    let mut back = String::new();
    cursor.read_to_string(&mut back)?;
    println!("io: {back:?}");
    let mut writer = io::BufWriter::new(Vec::new());
    (0..5).try_for_each(|n| write!(writer, "{n},"))?;
    println!("io: {:?}", String::from_utf8_lossy(&writer.into_inner()?));
    let mut buffer = [0; 8];
    println!("io: {:?}", (&b"short"[..]).read_exact(&mut buffer).map_err(|error| error.kind()));
    println!("io: {:?}", io::Error::new(io::ErrorKind::NotFound, "no such plank"));
    println!("io: {}", io::Error::from(io::ErrorKind::TimedOut));
    let mut taken = Vec::new();
    io::repeat(b'z').take(3).chain(&b"end"[..]).read_to_end(&mut taken)?;
    println!("io: {:?} {}", std::str::from_utf8(&taken), io::copy(&mut &text.as_bytes()[..], &mut io::sink())?);
    let mut out = io::stdout().lock();
    writeln!(out, "io: through a lock")?;
    println!("io: and beside it");
    out.write_all(b"io: bytes\n")
}

fn time() {
    let start = Instant::now();
    thread::sleep(Duration::from_millis(3));
    let passed = start.elapsed();
    println!("time: slept long enough {}, and {:?}", passed >= Duration::from_millis(3), Duration::from_micros(1_500_250));
    println!("time: after 2020 {}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap() > Duration::from_secs(1_577_836_800));
}

fn memory() {
    let mut large: Vec<u64> = Vec::new();
    for n in 0..1_000_000 {
        large.push(n);
    }
    let strings: Vec<String> = (0..10_000).map(|n| "x".repeat(n % 300)).collect();
    large.remove(0);
    large.insert(3, 42);
    println!("memory: {} {} {:?}", large.iter().sum::<u64>(), strings.iter().map(String::len).sum::<usize>(), &large[..5]);
    let boxed: Box<dyn Fn(u64) -> u64> = Box::new(move |n| n + large[10]);
    let shared: Arc<str> = "shared".into();
    println!("memory: {} {}", boxed(1), Arc::strong_count(&shared));
}
