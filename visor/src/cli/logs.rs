//! `monohull logs`: what the functions of an invocation have printed.

use clap::Args;

use super::client::{Client, ClientError, Server};
use super::exit::Exit;

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
    #[command(flatten)]
    server: Server,
}

impl Logs {
    pub(super) fn run(&self) -> Exit {
        match self.show() {
            Ok(()) => Exit::Done,
            Err(error) => error.tell(self.json),
        }
    }

    fn show(&self) -> Result<(), ClientError> {
        let client = Client::new(&self.server)?;
        let id = percent_encoding::utf8_percent_encode(&self.id, percent_encoding::NON_ALPHANUMERIC);
        // An unknown id is told before lines are.
        client.get(&format!("/invocations/{id}"))?;
        let format = if self.json { "json" } else { "text" };
        let path = format!("/invocations/{id}/logs?format={format}&follow={}", self.follow);
        client.stream(&path, &mut |lines| {
            super::print_bytes(lines);
            Ok(())
        })
    }
}
