//! What a server and its processes take of memory: of pages that several of them share, each its part (PSS).

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::ask;
use crate::peer::{build_cgi, build_link};
use crate::service::{self, children, pss, register};
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(_: Effort) -> Result<Vec<Row>> {
    let server = service::monohull(&["--prefork", "1"])?;
    let args = json!({ "args": { "how": "sleep" }, "limits": { "timeout": "20s" } });
    register(server.address, "waits", "misbehave", &args)?;
    let supervisor = server.pid() as i32;
    let spawner = *children(supervisor).first().ok_or("the server has no spawner")?;
    let worker = only_child(spawner)?;
    settle();
    let (idle, of_spawner, of_idle) = (pss(&supervisor), pss(&spawner), pss(&worker));
    ask(server.address, "POST", "/async-invoke/waits", b"")?;
    // It has taken the one idle worker there was.
    settle();
    let of_worker = pss(&worker);

    let apache = service::apache(&build_cgi()?)?;
    settle();
    let parent = apache.pid() as i32;
    let of_apache = pss(&parent) + children(parent).iter().map(pss).sum::<u64>();
    let mut process = Command::new(build_link()?).arg("forward").stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let process = process.as_mut().map_err(|error| format!("a process: {error}"))?;
    settle();
    let of_process = pss(&(process.id() as i32));
    drop(process.stdin.take());
    process.wait().map_err(|error| error.to_string())?;

    let row = |what: &str, ours: u64, peer: u64, name: &str| {
        let side = |bytes: u64| Samples::of(vec![bytes as f64]);
        Row::new(format!("memory, {what}"), (side(ours), side(peer)), name, Unit::Kibibytes, None)
    };
    Ok(vec![
        row("idle supervisor", idle, of_apache, "Apache, idle"),
        row("spawner", of_spawner, of_apache, "Apache, idle"),
        row("idle-worker", of_idle, of_process, "a static program that waits"),
        row("workflow of one waiting function", of_worker, of_process, "a static program that waits"),
    ])
}

/// Gives processes time to do what they do at first.
fn settle() {
    std::thread::sleep(Duration::from_millis(500));
}

fn only_child(pid: i32) -> Result<i32> {
    let begin = Instant::now();
    loop {
        if let [child] = children(pid)[..] {
            return Ok(child);
        }
        if begin.elapsed() > PATIENCE {
            return Err("there is no idle worker, or there are several".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
