//! A runtime that only waits: timers, a channel that is full, a pair of sockets with something in it, a blocking thread. It may be captured
//! meanwhile and go on in another process; what it prints is the same.

use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};
use tokio::{task, time};

/// How often and how long the program waits.
#[derive(Clone, Copy)]
pub(crate) struct Naps {
    count: u32,
    each: Duration,
}

impl Naps {
    /// What the arguments `--naps=…` and `--milliseconds=…` say; `None` if the program has other things to do.
    pub(crate) fn from_arguments() -> Option<Naps> {
        let number = |name: &str| env::args().find_map(|argument| argument.strip_prefix(name)?.parse().ok());
        let each = Duration::from_millis(number("--milliseconds=").unwrap_or(100));
        Some(Naps { count: u32::try_from(number("--naps=")?).ok()?, each })
    }
}

pub(crate) async fn all(naps: Naps) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let (sender, mut receiver) = mpsc::channel(2);
    // The channel has room for two: the third waits until the main task takes one.
    let producer = task::spawn(async move {
        for number in 0..naps.count + 3 {
            sender.send(number).await?;
        }
        Ok::<_, mpsc::error::SendError<u32>>("all sent")
    });
    let blocking = task::spawn_blocking(move || {
        for _ in 0..naps.count {
            thread::sleep(naps.each);
        }
        naps.count
    });
    let (mut near, mut far) = UnixStream::pair()?;
    near.write_all(b"before, ").await?;
    let reader = task::spawn(async move {
        let mut text = String::new();
        far.read_to_string(&mut text).await.map(|_| text)
    });
    let ticks = task::spawn(async move {
        let mut interval = time::interval(naps.each);
        for _ in 0..=naps.count {
            interval.tick().await;
        }
        "ticks"
    });
    static ENTERED: AtomicU32 = AtomicU32::new(0);
    static GO: Notify = Notify::const_new();
    let notified = task::spawn(async {
        ENTERED.fetch_add(1, Ordering::Relaxed);
        GO.notified().await;
        ENTERED.load(Ordering::Relaxed)
    });
    for nap in 1..=naps.count {
        time::sleep(naps.each).await;
        println!("nap {nap}, received {:?}, reader done: {}", receiver.recv().await, reader.is_finished());
    }
    near.write_all(b"after").await?;
    drop(near);
    GO.notify_one();
    println!("pair: {}", reader.await??);
    println!("late: {}", time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
    let mut rest = Vec::new();
    while let Some(number) = receiver.recv().await {
        rest.push(number - naps.count);
    }
    println!("channel: {rest:?}, {}", producer.await??);
    println!("threads: {}, {}, {}", blocking.await? == naps.count, ticks.await?, notified.await?);
    println!("time: {}", begun.elapsed() >= naps.each * naps.count);
    Ok(())
}
