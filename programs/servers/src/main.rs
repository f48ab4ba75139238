//! tokio with all its features, and HTTP by axum, reqwest and ureq, all in one program that is server and client.
//!
//! Each part prints one line, with results that do not change from run to run. With the argument `--naps=…` it only waits, with
//! `--load=…` it measures how fast the server of axum answers, and with `--https=…` it asks another host.

mod https;
mod load;
mod waits;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::{fs, process, task, time};

type Outcome = Result<String, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(naps) = waits::Naps::from_arguments() {
        return waits::all(naps).await;
    }
    if let Some(each) = load::from_arguments() {
        return load::measure(each).await;
    }
    if let Some(asked) = https::Asked::from_arguments() {
        return https::ask(&asked).await;
    }
    println!("tasks: {}", tasks().await?);
    println!("timers: {}", timers().await?);
    println!("blocking: {}", blocking().await?);
    println!("files: {}", files().await?);
    println!("tcp: {}", tcp().await?);
    println!("udp: {}", udp().await?);
    println!("pairs: {}", pairs().await?);
    println!("http: {}", http().await?);
    println!("process: {}", processes().await);
    Ok(())
}

/// Tasks on several threads, and a channel.
async fn tasks() -> Outcome {
    let (sender, mut receiver) = mpsc::channel(4);
    let mut tasks = JoinSet::new();
    for number in 0..100_u64 {
        let sender = sender.clone();
        tasks.spawn(async move {
            task::yield_now().await;
            sender.send(number).await.is_ok()
        });
    }
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    let all = tasks.join_all().await.into_iter().filter(|sent| *sent).count();
    let lost = task::spawn(async { panic!("expected") }).await.is_err_and(|error| error.is_panic());
    Ok(format!("{all} tasks, sum {sum}, a panic is caught: {lost}"))
}

async fn timers() -> Outcome {
    let begun = Instant::now();
    let late = time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await.is_err();
    let mut ticks = time::interval(Duration::from_millis(5));
    for _ in 0..4 {
        ticks.tick().await;
    }
    let first = tokio::select! {
        () = time::sleep(Duration::from_secs(600)) => "the long one",
        () = time::sleep(Duration::from_millis(5)) => "the short one",
    };
    Ok(format!("{late}, {first}, {}", begun.elapsed() >= Duration::from_millis(25)))
}

async fn blocking() -> Outcome {
    let mut threads = Vec::new();
    for part in 0..8_u64 {
        threads.push(task::spawn_blocking(move || (part * 1000..(part + 1) * 1000).sum::<u64>()));
    }
    let mut sum = 0;
    for thread in threads {
        sum += thread.await?;
    }
    Ok(sum.to_string())
}

async fn files() -> Outcome {
    let folder = std::env::temp_dir().join("servers");
    fs::create_dir_all(&folder).await?;
    for number in 0..3 {
        fs::write(folder.join(format!("{number}.txt")), "line\n".repeat(number + 1)).await?;
    }
    let mut names = Vec::new();
    let mut entries = fs::read_dir(&folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        names.push(format!("{} {}", entry.file_name().display(), entry.metadata().await?.len()));
    }
    names.sort();
    let text = fs::read_to_string(folder.join("2.txt")).await?;
    fs::remove_dir_all(&folder).await?;
    Ok(format!("{}, {} lines", names.join(", "), text.lines().count()))
}

/// An echo that many clients use at once; each sends more than any buffer holds.
async fn tcp() -> Outcome {
    const CLIENTS: u8 = 8;
    const LENGTH: usize = 300_000;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = task::spawn(async move {
        let mut served = JoinSet::new();
        for _ in 0..CLIENTS {
            let (mut stream, _) = listener.accept().await?;
            served.spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
        served.join_all().await.into_iter().sum::<std::io::Result<u64>>()
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(async move {
            let (mut from, mut to) = TcpStream::connect(address).await?.into_split();
            let writer = task::spawn(async move {
                to.write_all(&vec![client; LENGTH]).await?;
                to.shutdown().await
            });
            let mut back = Vec::new();
            from.read_to_end(&mut back).await?;
            writer.await??;
            std::io::Result::Ok(back.len() == LENGTH && back.iter().all(|byte| *byte == client))
        });
    }
    let right = clients.join_all().await.into_iter().filter(|answer| matches!(answer, Ok(true))).count();
    let refused = TcpStream::connect("127.0.0.1:1").await.map_err(|error| error.kind());
    Ok(format!("{right} clients, {} bytes, then {:?}", server.await??, refused.err()))
}

async fn udp() -> Outcome {
    let (one, other) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    one.send_to(b"datagram", other.local_addr()?).await?;
    let mut bytes = [0; 16];
    let (length, from) = other.recv_from(&mut bytes).await?;
    Ok(format!("{} {}", std::str::from_utf8(&bytes[..length])?, from == one.local_addr()?))
}

async fn pairs() -> Outcome {
    let (mut one, mut other) = UnixStream::pair()?;
    let sent = task::spawn(async move {
        one.write_all(&[7; 200_000]).await?;
        one.shutdown().await
    });
    let mut bytes = Vec::new();
    other.read_to_end(&mut bytes).await?;
    sent.await??;
    Ok(format!("{} bytes", bytes.len()))
}

/// A server of axum, asked by reqwest and by ureq, and shut down.
async fn http() -> Outcome {
    let visits = Arc::new(AtomicU32::new(0));
    let count = |State(visits): State<Arc<AtomicU32>>, Path(name): Path<String>| async move {
        format!("{name}: visit {}", visits.fetch_add(1, Ordering::Relaxed) + 1)
    };
    let sum = |Json(numbers): Json<Vec<i64>>| async move { Json(json!({ "sum": numbers.iter().sum::<i64>() })) };
    let router = Router::new().route("/visit/{name}", get(count)).route("/sum", post(sum)).with_state(visits.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = task::spawn(async move {
        axum::serve(listener, router).with_graceful_shutdown(async move { drop(stopped.await) }).await
    });

    let client = reqwest::Client::new();
    let first = client.get(format!("http://{address}/visit/reqwest")).send().await?.text().await?;
    let sum: Value = client.post(format!("http://{address}/sum")).json(&[1, 2, 39]).send().await?.json().await?;
    let missing = client.get(format!("http://{address}/nothing")).send().await?.status();
    let mut many = JoinSet::new();
    for number in 0..20 {
        let request = client.get(format!("http://{address}/visit/{number}"));
        many.spawn(async move { request.send().await.is_ok_and(|response| response.status().is_success()) });
    }
    let answered = many.join_all().await.into_iter().filter(|answered| *answered).count();
    drop(client);
    let second = task::spawn_blocking(move || {
        ureq::get(&format!("http://{address}/visit/ureq")).call()?.body_mut().read_to_string()
    });
    let second = second.await??;
    stop.send(()).map_err(|()| "the server has ended")?;
    server.await??;
    Ok(format!("{first}; {sum}; {}; {answered} at once; {second}", missing.as_u16()))
}

/// What a function has not.
async fn processes() -> String {
    let started = process::Command::new("true").status().await;
    started.map_or_else(|error| error.kind().to_string(), |status| status.to_string())
}
