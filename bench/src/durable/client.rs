//! A client of an engine: the same questions in each one's way.

use super::Order;
use crate::harness::Result;
use crate::http::{Connection, request};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a workflow may take to come to its wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// How an engine is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// As our server.
    Monohull,
    /// As Restate's ingress.
    Restate,
    /// As the small servers of `bench/peers/durable`.
    Small,
}

/// A connection that stays.
pub(crate) struct Client {
    style: Style,
    connection: Connection,
}

impl Client {
    pub(super) fn open(style: Style, address: SocketAddr) -> Result<Client> {
        Ok(Client { style, connection: Connection::open(address)? })
    }

    /// Starts a workflow, which is kept when this returns.
    pub(crate) fn start(&mut self, id: &str, order: &Order) -> Result<()> {
        match self.style {
            Style::Monohull => self.post(&format!("/async-invoke/{}?id={id}", order.workflow()), b"").map(drop),
            Style::Restate => self.post_json(&format!("/bench/{id}/run/send"), &order.peers().to_string()).map(drop),
            Style::Small => self.post(&format!("/start/{id}"), order.peers().to_string().as_bytes()).map(drop),
        }
    }

    /// Starts a workflow and waits for its result.
    pub(crate) fn call(&mut self, id: &str, order: &Order) -> Result<f64> {
        let answer = match self.style {
            Style::Monohull => {
                self.start(id, order)?;
                return self.result(id);
            }
            Style::Restate => self.post_json(&format!("/bench/{id}/run"), &order.peers().to_string())?,
            Style::Small => self.post(&format!("/call/{id}"), order.peers().to_string().as_bytes())?,
        };
        number(&answer)
    }

    /// Waits for the result of one that was started.
    pub(crate) fn result(&mut self, id: &str) -> Result<f64> {
        let path = match self.style {
            Style::Monohull => format!("/invocations/{id}/outputs/result?wait=60s"),
            Style::Restate => format!("/restate/workflow/bench/{id}/attach"),
            Style::Small => format!("/result/{id}"),
        };
        self.connection.send(&request("GET", &path, b""))?;
        match self.connection.answer()? {
            (200, answer) => number(&answer),
            // One that leaves nothing.
            (404, _) if self.style == Style::Monohull => Ok(0.0),
            (status, answer) => Err(refused(&path, status, &answer)),
        }
    }

    /// Sends the event `go`, with a number in it.
    pub(crate) fn send(&mut self, id: &str, number: u64) -> Result<()> {
        let text = number.to_string();
        match self.style {
            Style::Monohull => self.post(&format!("/invocations/{id}/events/go"), text.as_bytes()).map(drop),
            Style::Restate => self.post_json(&format!("/bench/{id}/send"), &format!("\"{text}\"")).map(drop),
            Style::Small => self.post(&format!("/send/{id}"), format!("\"{text}\"").as_bytes()).map(drop),
        }
    }

    /// What a workflow has published, if it is there yet.
    pub(crate) fn published(&mut self, id: &str) -> Result<Option<f64>> {
        let asks = match self.style {
            Style::Monohull => request("GET", &format!("/invocations/{id}/state/published"), b""),
            Style::Restate => request("POST", &format!("/bench/{id}/published"), b""),
            Style::Small => request("GET", &format!("/published/{id}"), b""),
        };
        self.connection.send(&asks)?;
        match self.connection.answer()? {
            (200, answer) => Ok(number(&answer).ok()),
            (404, _) => Ok(None),
            (status, answer) => Err(refused("what is published", status, &answer)),
        }
    }

    /// Returns when a workflow waits: ours is suspended, one of a peer has published that it comes to its wait.
    pub(crate) fn until_it_waits(&mut self, id: &str) -> Result<()> {
        let begin = Instant::now();
        loop {
            let waits = if self.style == Style::Monohull {
                let shown = self.ask("GET", &format!("/invocations/{id}"), b"")?;
                let shown: Value = serde_json::from_slice(&shown).unwrap_or_default();
                match shown["status"].as_str() {
                    Some("suspended") => true,
                    Some("pending" | "running") => false,
                    _ => return Err(format!("{id} does not wait: {shown}")),
                }
            } else {
                self.published(id)?.is_some()
            };
            if waits {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("{id} does not come to its wait"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// How often one of ours was suspended, or has made a save point.
    pub(crate) fn generation(&mut self, id: &str) -> Result<f64> {
        let shown = self.ask("GET", &format!("/invocations/{id}"), b"")?;
        let shown: Value = serde_json::from_slice(&shown).unwrap_or_default();
        shown["generation"].as_f64().ok_or_else(|| format!("{id} has no checkpoints: {shown}"))
    }

    /// An answer to a request of the engine's own.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.connection.send(&request(method, path, body))?;
        self.accepted(path)
    }

    fn post(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.ask("POST", path, body)
    }

    fn post_json(&mut self, path: &str, body: &str) -> Result<Vec<u8>> {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ");
        self.connection.send(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes())?;
        self.accepted(path)
    }

    fn accepted(&mut self, path: &str) -> Result<Vec<u8>> {
        match self.connection.answer()? {
            (200..=202, answer) => Ok(answer),
            (status, answer) => Err(refused(path, status, &answer)),
        }
    }
}

fn refused(path: &str, status: u16, answer: &[u8]) -> String {
    format!("{path}: {status}: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)]))
}

/// The number that an answer is, in quotes or not; none is 0.
fn number(answer: &[u8]) -> Result<f64> {
    let text = String::from_utf8_lossy(answer);
    match text.trim().trim_matches('"') {
        "" => Ok(0.0),
        text => text.parse().map_err(|_| format!("an answer is no number: {text:?}")),
    }
}
