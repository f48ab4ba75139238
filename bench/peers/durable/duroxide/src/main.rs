//! The workflows of `bench durable` for duroxide, with a small HTTP server before them. Started as `duroxide-peer PORT DATABASE-FILE`.
//!
//! ```text
//! POST /start/ID ORDER    the workflow is recorded         POST /send/ID VALUE     an event
//! GET  /result/ID         waits for its result             GET  /published/ID      what it has published
//! POST /call/ID ORDER     both
//! ```

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How often it is looked whether a workflow has ended: the library's own way of waiting pauses for longer and longer.
const PULSE: Duration = Duration::from_millis(1);

/// When sleeps have begun: not recorded, so it is not in what is measured.
static BEGUN: LazyLock<Mutex<HashMap<String, Instant>>> = LazyLock::new(Mutex::default);

async fn bench(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    let order: Value = serde_json::from_str(&order).map_err(|error| error.to_string())?;
    let number = |name: &str| order[name].as_u64().unwrap_or(0);
    let mut done = 0;
    if let Some("steps" | "event") = order["what"].as_str() {
        for _ in 0..number("count") {
            done += ctx.schedule_activity("one", "").await?.parse::<u64>().map_err(|error| error.to_string())?;
        }
    }
    match order["what"].as_str() {
        Some("late") => {
            let time = Duration::from_millis(number("milliseconds"));
            let id = ctx.instance_id();
            let begun = *BEGUN.lock().expect("nothing panics with it").entry(id).or_insert_with(Instant::now);
            ctx.schedule_timer(time).await;
            Ok((begun.elapsed().as_nanos() as f64 - time.as_nanos() as f64).to_string())
        }
        Some("event") => {
            ctx.set_kv_value("published", "17");
            Ok(ctx.schedule_wait("go").await)
        }
        _ => Ok(done.to_string()),
    }
}

async fn result(client: &Client, id: &str) -> Result<String, Error> {
    loop {
        match client.get_orchestration_status(id).await? {
            OrchestrationStatus::Completed { output, .. } => return Ok(output),
            OrchestrationStatus::Failed { details, .. } => return Err(format!("{details:?}").into()),
            _ => tokio::time::sleep(PULSE).await,
        }
    }
}

async fn answer(client: &Client, path: &str, body: String) -> Result<String, Error> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (what, id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if let "start" | "call" = what {
        client.start_orchestration(id, "bench", body.clone()).await?;
    }
    match what {
        "call" | "result" => result(client, id).await,
        "send" => client
            .raise_event(id, "go", body.trim_matches('"'))
            .await
            .map(|()| "\"sent\"".to_owned())
            .map_err(Error::from),
        "published" => Ok(client.get_kv_value(id, "published").await?.unwrap_or_default()),
        _ => Ok("\"ready\"".to_owned()),
    }
}

async fn serve(client: Arc<Client>, stream: TcpStream) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(Ok(0), str::parse)?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let (status, said) = match answer(&client, &path, String::from_utf8(body)?).await {
            Ok(said) => ("200 OK", said),
            Err(error) => ("500 Failed", error.to_string()),
        };
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{said}", said.len());
        stream.get_mut().write_all(text.as_bytes()).await?;
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, file] = arguments.as_slice() else { return Err("duroxide-peer PORT DATABASE-FILE".into()) };
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{file}?mode=rwc"), None).await?);
    let one = |_: ActivityContext, _: String| async { Ok("1".to_owned()) };
    let activities = ActivityRegistry::builder().register("one", one).build();
    let orchestrations = OrchestrationRegistry::builder().register("bench", bench).build();
    let _runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Arc::new(Client::new(store));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(client.clone(), stream));
    }
}
