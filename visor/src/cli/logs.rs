//! `monohull logs`: what the functions of an invocation have printed.

use clap::Args;

use super::client::{Client, ClientError, Server};
use super::exit::Exit;
use super::output::{Data, Piece};
use monohull_report::escape::Notation;

/// Show what the functions of an invocation have printed
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull logs 4d0f6c0b9f6a4b5e8d7c6b5a49382716 --follow"))]
pub(super) struct Logs {
    /// The invocation's id, as `invoke --async` prints it
    id: String,
    /// Also show what they print from now on, until the invocation ends
    #[arg(long)]
    follow: bool,
    /// Print each line as a JSON object
    #[arg(long)]
    json: bool,
    /// Print control characters as they are; without it they are escaped, because a terminal acts on them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    server: Server,
}

impl Logs {
    pub(super) fn run(&self) -> Exit {
        match self.show() {
            // A reader that has gone away is not a failure.
            Ok(()) | Err(ClientError::Unread) => Exit::Done,
            Err(error) => error.report(self.json),
        }
    }

    fn show(&self) -> Result<(), ClientError> {
        let client = Client::new(&self.server)?;
        let id = percent_encoding::utf8_percent_encode(&self.id, percent_encoding::NON_ALPHANUMERIC);
        // An unknown id is reported before any line.
        client.get(&format!("/invocations/{id}"))?;
        let (format, mut lines) = match (self.json, self.raw) {
            (true, _) => ("json", Data::escaped(Notation::Json)),
            (_, true) => ("raw", Data::raw()),
            _ => ("text", Data::escaped(Notation::Lines)),
        };
        let path = format!("/invocations/{id}/logs?format={format}&follow={}", self.follow);
        client.stream(&path, &mut |piece| match lines.put(piece) {
            Piece::Continue(()) => Ok(()),
            Piece::Break(()) => Err(ClientError::Unread),
        })?;
        lines.finish();
        Ok(())
    }
}
