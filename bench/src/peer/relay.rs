//! What a request costs at least in a server of our shape: hyper on one thread, and for each request one message to another process and one
//! back. Nothing is checked, run, measured or remembered.
//!
//! ```text
//!   client ──HTTP── hyper ──message── one of some processes, which sends it back
//! ```

use crate::harness::Result;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::LocalSet;

/// About what a job and its report take when both are packed.
pub(super) const MESSAGE: usize = 256;

/// The processes that wait for a message.
type Waiting = Rc<RefCell<Vec<UnixStream>>>;

/// Serves until it is killed, with so many processes; says first where it listens.
pub(super) fn serve(processes: usize) -> Result<f64> {
    let serve = || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, async {
            let waiting: Waiting = Rc::default();
            for _ in 0..processes {
                let process = process()?;
                process.set_nonblocking(true)?;
                waiting.borrow_mut().push(UnixStream::from_std(process)?);
            }
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            println!("{}", listener.local_addr()?);
            loop {
                let (wire, _) = listener.accept().await?;
                wire.set_nodelay(true)?;
                tokio::task::spawn_local(connection(wire, waiting.clone()));
            }
        })
    };
    serve().map(|()| 0.0).map_err(|error| format!("the relay: {error}"))
}

/// Sends each message on standard input, which is a socket, back to where it came from.
pub(super) fn echo() -> Result<f64> {
    let echo = || -> io::Result<()> {
        let mut socket = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut message = [0; MESSAGE];
        loop {
            socket.read_exact(&mut message)?;
            socket.write_all(&message)?;
        }
    };
    match echo() {
        // The relay has ended.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0.0),
        Err(error) => Err(format!("a process of the relay: {error}")),
        Ok(()) => Ok(0.0),
    }
}

/// Another process, in [`echo`].
pub(super) fn process() -> io::Result<Socket> {
    let (ours, theirs) = Socket::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--peer", "echo"]).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    command.spawn()?;
    Ok(ours)
}

/// Serves a client with the settings that the server of workflows has.
async fn connection(wire: TcpStream, waiting: Waiting) {
    let service = service_fn(|request| relayed(request, waiting.clone()));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10)).half_close(true);
    // A client that has gone away ends its connection, and nothing else.
    let _ = server.serve_connection(TokioIo::new(wire), service).await;
}

/// Answers a request when a process has sent its message back.
async fn relayed(request: Request<Incoming>, waiting: Waiting) -> io::Result<Response<Empty<Bytes>>> {
    request.into_body().collect().await.map_err(io::Error::other)?;
    let process = waiting.borrow_mut().pop();
    let mut process = process.ok_or_else(|| io::Error::other("there are more requests than processes"))?;
    let mut message = [7; MESSAGE];
    process.write_all(&message).await?;
    process.read_exact(&mut message).await?;
    waiting.borrow_mut().push(process);
    Ok(Response::new(Empty::new()))
}
