//! A server of axum under load: clients ask one request after the other, each over a connection that stays open.
//!
//! The time that a request takes is printed as `NAME: NANOSECONDS`, so that the same program can be compared with itself elsewhere.

use std::env;
use std::error::Error;
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{self, JoinSet};

/// Clients that ask at the same time.
const CLIENTS: u32 = 8;
/// What each of them asks.
const REQUEST: &[u8] = b"GET /plain HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// What the answer ends with.
const BODY: &str = "an answer\n";

/// How many requests each client makes, by the argument `--load=…`; `None` if the program has other things to do.
pub(crate) fn from_arguments() -> Option<u32> {
    env::args().find_map(|argument| argument.strip_prefix("--load=")?.parse().ok())
}

pub(crate) async fn measure(each: u32) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/plain", get(|| async { BODY }));
    let server = task::spawn(async move { axum::serve(listener, router).await });
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let connection = TcpStream::connect(address).await?;
        connection.set_nodelay(true)?;
        connections.push(connection);
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for connection in connections {
        clients.spawn(ask(connection, each));
    }
    for asked in clients.join_all().await {
        asked.map_err(|error| format!("a client: {error}"))?;
    }
    let requests = f64::from(each.max(1)) * f64::from(CLIENTS);
    println!("axum, {CLIENTS} clients: {:.0}", begun.elapsed().as_secs_f64() * 1e9 / requests);
    server.abort();
    Ok(())
}

async fn ask(mut connection: TcpStream, times: u32) -> Result<(), String> {
    let mut answer = Vec::new();
    for _ in 0..times {
        connection.write_all(REQUEST).await.map_err(|error| error.to_string())?;
        answer.clear();
        while !answer.ends_with(BODY.as_bytes()) {
            let read = connection.read_buf(&mut answer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err(format!("the server has closed the connection after {} bytes", answer.len()));
            }
        }
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            return Err(String::from_utf8_lossy(&answer).into_owned());
        }
    }
    Ok(())
}
