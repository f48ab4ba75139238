//! Two workflows: one serves HTTP, the other fetches a page from it. Then other clients ask until the server has answered as many as it was
//! to.

use super::{monohull, slot};
use crate::{Result, shell};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// Where `workflows/network/http-serve.json` serves, and `http-fetch.json` asks, and how many requests are answered.
const PLACE: &str = "127.0.0.1:8000";
const REQUESTS: usize = 10;

pub(super) fn run(folder: &Path) -> Result {
    shell::heading("A workflow that serves HTTP, and one that fetches from it");
    let mut serve = monohull("network/http-serve")?;
    let child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut server = Server(child.map_err(|error| format!("cannot start the server: {error}"))?);
    let mut said = BufReader::new(server.0.stdout.take().expect("piped")).lines().map_while(std::result::Result::ok);
    if !said.any(|line| line.contains("listening at")) {
        return Err(format!("the server does not listen: is {PLACE} in use?"));
    }
    let body = folder.join("page");
    shell::run(monohull("network/http-fetch")?.arg("--output").arg(slot("body", &body)))?;
    let page = fs::read_to_string(&body).map_err(|error| format!("{}: {error}", body.display()))?;
    println!("fetched: {}", page.trim_end());
    for number in 1..REQUESTS {
        ask(number).map_err(|error| format!("request {number} of {PLACE}: {error}"))?;
    }
    let status = server.0.wait().map_err(|error| format!("cannot wait for the server: {error}"))?;
    if !status.success() {
        return Err(format!("the server ended with {status}: {}", said.collect::<Vec<_>>().join("\n")));
    }
    println!("the server has answered {REQUESTS} requests and ended");
    Ok(())
}

/// The server while it runs; it is killed in any case.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One request, as a client of no library would make it.
fn ask(number: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(PLACE)?;
    write!(stream, "GET /{number} HTTP/1.1\r\nHost: {PLACE}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.ends_with(&format!("you asked for /{number}\n")) {
        true => Ok(()),
        false => Err(std::io::Error::other(answer)),
    }
}
