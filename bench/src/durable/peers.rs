//! The peers, as `cargo xtask bench` fetches them: in their recommended setting for durability, and without measurements of their own that they would
//! send to their makers.

use super::client::Style;
use super::engine::{Engine, Place};
use crate::harness::Result;
use crate::http::Connection;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// A server in Rust with its own log, and the SDK for JavaScript.
    Restate,
    /// A library for Python over PostgreSQL.
    Dbos,
    /// A library for Rust over SQLite.
    Duroxide,
}

impl Peer {
    pub(crate) const ALL: [Peer; 3] = [Peer::Restate, Peer::Dbos, Peer::Duroxide];

    /// What rows call it, with what a reader must know of how it runs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            // Its log and its store are written with `fsync`, as is the default.
            Peer::Restate => "Restate 1.7, one node, SDK for JavaScript",
            // The defaults of PostgreSQL: `fsync` and `synchronous_commit` are on.
            Peer::Dbos => "DBOS 3.4 on PostgreSQL 15",
            // Its provider asks SQLite for `synchronous = WAL`, which SQLite takes for NORMAL: a commit is not on the disk when it returns.
            Peer::Duroxide => "duroxide 0.1 on SQLite, which it does not sync at commits",
        }
    }
}

/// Where `cargo xtask bench` leaves them.
fn fetched(what: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/durable-peers").join(what);
    // Not made canonical: the interpreter of an environment is a link, and finds its packages by where the link is.
    let path = std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if path.exists() { Ok(path) } else { Err(format!("{what} is not there; `cargo xtask bench durable` fetches it")) }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/durable").join(name)
}

/// Starts it; `settings` are environment variables of Restate's server.
pub(crate) fn start(peer: Peer, settings: &'static [(&'static str, &'static str)]) -> Result<Engine> {
    match peer {
        Peer::Restate => restate(settings),
        Peer::Dbos => dbos(),
        Peer::Duroxide => duroxide(),
    }
}

fn restate(settings: &'static [(&'static str, &'static str)]) -> Result<Engine> {
    const ADMIN: usize = 1;
    let folder = fetched("restate")?;
    let server = folder.join("node_modules/@restatedev/restate-server-linux-x64/bin/restate-server");
    let begin = move |place: &Place| {
        let [ingress, admin] = [0, ADMIN].map(|port| place.address(port).to_string());
        let mut functions = Command::new("node");
        functions.arg(folder.join("restate.mjs")).arg(place.ports[2].to_string()).env("NODE_ENV", "production");
        let mut command = Command::new(&server);
        command.args(["--node-name", "bench", "--bind-ip", "127.0.0.1", "--listen-mode", "tcp", "--no-logo"]);
        command.args(["--bind-port", &place.ports[3].to_string()]);
        command.env("RESTATE_BASE_DIR", place.folder.join("state")).env("RESTATE_DISABLE_TELEMETRY", "true");
        command.env("RESTATE_INGRESS__BIND_ADDRESS", ingress).env("RESTATE_ADMIN__BIND_ADDRESS", admin);
        command.env("RUST_LOG", "error").envs(settings.iter().copied());
        vec![functions, command]
    };
    let place = Place::new("restate", 4)?;
    // The process of the functions is not the engine.
    let engine = Engine::new(Peer::Restate.name(), Style::Restate, place, Box::new(begin), (ADMIN, "/health"), 1)?;
    // It asks the service what it has, so that must listen.
    let service = engine.place.address(2);
    crate::service::eventually("the service listens", || Ok(Connection::open(service).is_ok()))?;
    let (status, answer) = engine.admin("/deployments", &json!({ "uri": format!("http://{service}") }))?;
    match status {
        200 | 201 => Ok(engine),
        _ => Err(format!("Restate refuses the service: {status}: {answer}")),
    }
}

impl Engine {
    /// What Restate says of the last failure of a workflow.
    pub(crate) fn restate_failure(&self, id: &str) -> Result<String> {
        let query = format!("select last_failure from sys_invocation where target_service_key = '{id}'");
        Ok(self.admin("/query", &json!({ "query": query }))?.1)
    }

    /// Asks Restate's port for administrators.
    fn admin(&self, path: &str, body: &Value) -> Result<(u16, String)> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nContent-Type: application/json"
        );
        let mut admin = Connection::open(self.place.address(1))?;
        admin.send(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let (status, answer) = admin.answer()?;
        Ok((status, String::from_utf8_lossy(&answer).into_owned()))
    }
}

fn dbos() -> Result<Engine> {
    let (python, programs) =
        (fetched("dbos/bin/python")?, fetched("postgresql/bookworm/tree/usr/lib/postgresql/15/bin")?);
    let place = Place::new("dbos", 2)?;
    let data = place.folder.join("database");
    // PostgreSQL refuses to run as root.
    let user = nix::unistd::Uid::effective().is_root().then_some(65534);
    if let Some(user) = user {
        std::os::unix::fs::chown(&place.folder, Some(user), Some(user)).map_err(|error| error.to_string())?;
    }
    let as_user = move |program: PathBuf| {
        let Some(user) = user else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    };
    let mut initdb = as_user(programs.join("initdb"));
    initdb.args(["-U", "bench", "--auth=trust", "-E", "UTF8", "--locale=C", "-D"]).arg(&data).stdout(Stdio::null());
    let status = initdb.status().map_err(|error| format!("initdb: {error}"))?;
    if !status.success() {
        return Err(format!("initdb ended with {status}"));
    }
    let begin = move |place: &Place| {
        let [application, database] = [0, 1].map(|port: usize| place.ports[port].to_string());
        let mut server = as_user(programs.join("postgres"));
        server.arg("-D").arg(&data).args(["-p", &database, "-c", "listen_addresses=127.0.0.1"]);
        server.args(["-c", "unix_socket_directories="]);
        let mut functions = Command::new(&python);
        functions.arg(source("dbos_peer.py")).arg(application);
        functions.arg(format!("postgresql://bench@127.0.0.1:{database}/dbos"));
        vec![server, functions]
    };
    // The database is a part of what is killed.
    Engine::new(Peer::Dbos.name(), Style::Small, place, Box::new(begin), (0, "/ready/x"), 0)
}

fn duroxide() -> Result<Engine> {
    let program = fetched("duroxide/release/duroxide-peer")?;
    let begin = move |place: &Place| {
        let mut command = Command::new(&program);
        command.arg(place.ports[0].to_string()).arg(place.folder.join("database.sqlite")).env("RUST_LOG", "error");
        vec![command]
    };
    let place = Place::new("duroxide", 1)?;
    Engine::new(Peer::Duroxide.name(), Style::Small, place, Box::new(begin), (0, "/ready/x"), 0)
}
