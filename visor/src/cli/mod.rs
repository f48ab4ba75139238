//! The command line: one file per verb.
//!
//! Verbs read arguments, call the library and show what came of it; they decide nothing else. Results go to standard
//! output, everything about them to standard error, so that `--json` output can be piped as it is.

use std::fmt::Display;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod apart;
mod backup;
mod build;
mod c_toolchain;
mod cache;
mod cargo;
mod cc;
mod check;
mod checkpoint;
mod client;
mod completions;
mod copies;
mod deploy;
mod doctor;
mod durable;
pub mod exit;
mod file_state;
mod given;
mod host_libraries;
mod image;
mod image_cache;
mod imports;
mod invoke;
mod isolation;
mod key;
mod languages;
mod limits;
mod lines;
mod list;
mod logs;
mod measures;
mod migrate;
mod missing;
mod mistakes;
mod network;
mod new;
mod output;
mod prerequisites;
mod program_root;
mod programs;
mod progress;
mod python;
mod real_std;
mod resume;
mod run;
mod run_templates;
mod rust_flags;
mod schedule;
mod schema;
mod serve;
mod setting;
mod show;
mod single;
mod slots;
mod smaller_std;
mod std_users;
mod suspend;
mod table;
mod trust;
mod undeploy;
mod validate;
mod versions;
mod wasm;
mod watch;

use exit::Exit;
use monohull_report::escape;
use monohull_watchdog::log::Log;

/// Help that ends with an example and the exit codes.
macro_rules! concat_help {
    ($($example:literal),+) => {
        format!(concat!("Example:\n", $("  ", $example, "\n",)+ "\n{}"), crate::cli::exit::HELP)
    };
}
use concat_help;

/// Serverless workflows in one address space.
#[derive(Debug, Parser)]
#[command(name = "monohull", version, after_help = concat_help!("monohull run workflows/word-count.json --input text=book.txt --output counts=counts.txt"))]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Resume(resume::Resume),
    Wake(durable::wake::Wake),
    Send(durable::send::Send),
    Ps(durable::ps::Ps),
    Show(durable::show::Show),
    Timeline(durable::timeline::Timeline),
    Result(durable::result::Result),
    Pause(durable::control::Pause),
    Cancel(durable::control::Cancel),
    Kill(durable::control::Kill),
    Purge(durable::control::Purge),
    Fork(durable::fork::Fork),
    Checkpoints(durable::fork::Checkpoints),
    Rewind(durable::fork::Rewind),
    Export(durable::export::Export),
    Import(durable::export::Import),
    Backup(backup::Backup),
    Key(key::Key),
    Serve(Box<serve::Serve>),
    Deploy(deploy::Deploy),
    Undeploy(undeploy::Undeploy),
    Invoke(invoke::Invoke),
    Schedule(schedule::Schedule),
    Unschedule(schedule::Unschedule),
    List(list::List),
    Versions(versions::Versions),
    Migrate(migrate::Migrate),
    Logs(logs::Logs),
    Validate(validate::Validate),
    Network(network::Network),
    New(new::New),
    Init(new::Init),
    Build(build::Build),
    Cc(cc::Cc),
    #[command(name = "c++")]
    Cxx(cc::Cxx),
    Ld(cc::Ld),
    #[command(name = "rustc-wrapper")]
    RustcWrapper(program_root::Wrapper),
    Check(check::Check),
    Image(image::Image),
    Checkpoint(checkpoint::Checkpoint),
    Doctor(doctor::Doctor),
    Schema(schema::Schema),
    Completions(completions::Completions),
    Man(completions::Man),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    match limits::arrange() {
        Ok(()) => run(),
        Err(error) => fail(Exit::Host, &error).into(),
    }
}

/// The same, once there is room on the stack.
#[inline(never)]
fn run() -> ExitCode {
    monohull_domain::fault_injection::begin();
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return misunderstood(&error),
    };
    log(&verb);
    // These have exit codes of their own.
    let unwritten = match &verb {
        Verb::Check(_) => check::UNREADABLE,
        Verb::Image(image) if image.is_check() => check::UNREADABLE,
        Verb::Checkpoint(checkpoint) if checkpoint.is_verdict() => check::UNREADABLE,
        _ => Exit::Host as u8,
    };
    let exit = match verb {
        Verb::Run(verb) => verb.run(),
        Verb::Resume(verb) => verb.run(),
        Verb::Wake(verb) => verb.run(),
        Verb::Send(verb) => verb.run(),
        Verb::Ps(verb) => verb.run(),
        Verb::Show(verb) => verb.run(),
        Verb::Timeline(verb) => verb.run(),
        Verb::Result(verb) => verb.run(),
        Verb::Pause(verb) => verb.run(),
        Verb::Cancel(verb) => verb.run(),
        Verb::Kill(verb) => verb.run(),
        Verb::Purge(verb) => verb.run(),
        Verb::Fork(verb) => verb.run(),
        Verb::Checkpoints(verb) => verb.run(),
        Verb::Rewind(verb) => verb.run(),
        Verb::Export(verb) => verb.run(),
        Verb::Import(verb) => verb.run(),
        Verb::Backup(verb) => verb.run(),
        Verb::Key(verb) => verb.run(),
        Verb::Serve(verb) => verb.run(),
        Verb::Deploy(verb) => verb.run(),
        Verb::Undeploy(verb) => verb.run(),
        Verb::Invoke(verb) => verb.run(),
        Verb::Schedule(verb) => verb.run(),
        Verb::Unschedule(verb) => verb.run(),
        Verb::List(verb) => verb.run(),
        Verb::Versions(verb) => verb.run(),
        Verb::Migrate(verb) => verb.run(),
        Verb::Logs(verb) => verb.run(),
        Verb::Validate(verb) => verb.run(),
        Verb::Network(verb) => verb.run(),
        Verb::New(verb) => verb.run(),
        Verb::Init(verb) => verb.run(),
        Verb::Build(verb) => verb.run(),
        Verb::Cc(verb) => verb.run(),
        Verb::Cxx(verb) => verb.run(),
        Verb::Ld(verb) => verb.run(),
        Verb::RustcWrapper(verb) => verb.run(),
        Verb::Check(verb) => return end(verb.run(), unwritten),
        Verb::Image(verb) => return end(verb.run(), unwritten),
        Verb::Checkpoint(verb) => return end(verb.run(), unwritten),
        Verb::Doctor(verb) => verb.run(),
        Verb::Schema(verb) => verb.run(),
        Verb::Completions(verb) => verb.run(),
        Verb::Man(verb) => verb.run(),
    };
    end(exit as u8, unwritten)
}

/// Ends the program with an exit code, and as a failure if its output could not be written.
fn end(exit: u8, unwritten: u8) -> ExitCode {
    ExitCode::from(output::finish(exit, unwritten))
}

/// Prints what clap has to say: help, the version, or what is wrong with the arguments.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let exit = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
    let unescaped = std::env::args_os().any(|argument| argument.to_string_lossy().contains(escape::is_active));
    if error.use_stderr() && unescaped {
        // A pattern of the shell may have found a file whose name looks like an option.
        output::note(error.render().to_string().trim_end());
    } else if let Err(error) = error.print()
        && exit == 0
    {
        output::failed(error);
    }
    end(exit, Exit::Host as u8)
}

/// The help of a verb that passes its arguments on.
fn help_of(verb: &str) -> String {
    let mut program = Cli::command();
    program.build();
    program.find_subcommand_mut(verb).map(|verb| verb.render_long_help().to_string()).unwrap_or_default()
}

/// Sends messages of the library to standard error; RUST_LOG chooses which.
fn log(verb: &Verb) {
    // A server logs what it does; other commands log warnings only.
    let (usual, json) = match verb {
        Verb::Serve(serve) => ("info", serve.log == serve::Log::Json),
        _ => ("error", false),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    // What cannot be written is lost: there is no better place to say so. Colours would be escape sequences, and the writer
    // lets none of those pass.
    let messages = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Log { json });
    let messages = messages.log_internal_errors(false).with_ansi(false);
    if json {
        messages.json().flatten_event(true).init();
    } else {
        messages.init();
    }
}

/// Reports why a verb does nothing: on standard error, and with `json` as a document on standard output, too. Gives the exit code.
fn refuse(json: bool, exit: Exit, blame: &str, error: &dyn Display) -> Exit {
    refuse_with(json, exit, serde_json::json!({ "status": "refused" }), "refused", blame, error)
}

/// The same in a document that has more.
fn refuse_with(
    json: bool,
    exit: Exit,
    mut document: serde_json::Value,
    kind: &str,
    blame: &str,
    error: &dyn Display,
) -> Exit {
    if json {
        document["error"] = serde_json::json!({ "kind": kind, "blame": blame, "message": error.to_string() });
        output::json(&document);
    }
    fail(exit, error)
}

/// Reports an error on standard error, and gives the exit code.
fn fail(exit: Exit, error: &dyn Display) -> Exit {
    output::note(format_args!("monohull: {error}"));
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap does not ask for what an option requires where that cannot be given. Then the option would be ignored: a checkpoint would not be encrypted.
    #[test]
    fn options_of_a_state_folder_are_refused_where_there_is_none() {
        let refused = |line: &str| {
            let words = ["monohull"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        };
        let parsed = |line: &str| {
            let words = ["monohull"].into_iter().chain(line.split(' '));
            Cli::try_parse_from(words).map_or_else(|error| panic!("{line}: {error}"), drop);
        };
        for option in ["--state-key k", "--id i", "--detach", "--keep 2", "--checkpoint-every 2s", "--child f"] {
            parsed(&format!("run f {option} --state d"));
            for instead in ["", " --suspend d", " --watch", " --load all"] {
                refused(&format!("run f {option}{instead}"));
            }
        }
        parsed("resume i --state-key k --state d");
        let others =
            ["--suspend d", "--key f", "--raw", "--isolation mpk", "--cgroup none", "--count 2", "--event n=p"];
        for instead in others.into_iter().chain(["--server http://h:1"]) {
            refused(&format!("resume i --state-key k {instead}"));
        }
        parsed("resume i --server http://h:1");
        for option in others {
            refused(&format!("resume i --server http://h:1 {option}"));
        }
        refused("validate f --file-only --server http://h:1");
        for file in ["export i --to - --state d", "import - --state d"] {
            refused(file);
        }
        for verb in ["ps", "show i", "result i", "pause i", "cancel i", "kill i", "fork i", "checkpoints i", "send i n"]
        {
            parsed(&format!("{verb} --state-key k --state d"));
            for instead in ["--server http://h:1", "--token-file f", "--ca f"] {
                refused(&format!("{verb} --state-key k {instead}"));
            }
        }
        for option in ["--slot s", "--output f"] {
            refused(&format!("result i --state-key k {option}"));
        }
    }
}
