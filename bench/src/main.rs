//! Benchmarks: each scenario measures Monohull and what a user would do instead, in turns, in the same run.
//!
//! `cargo xtask bench` builds what this needs and starts it. Nothing here is a test: a figure over its goal is marked,
//! never an error.

mod cold;
mod durable;
mod forks;
mod harness;
mod http;
mod machine;
mod ours;
mod page_cache;
mod peer;
mod processor;
mod report;
mod scenario;
mod service;

use clap::Parser;
use harness::{Effort, Result};
use report::{Measured, Report, Skipped};
use scenario::Run;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures Monohull and its peers in the same run.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", after_help = "Example: cargo xtask bench hostcall chain --json result.json")]
struct Options {
    /// Scenarios to run; all if none is named.
    scenarios: Vec<String>,
    /// Shows the scenarios and ends.
    #[arg(long)]
    list: bool,
    /// Also writes the result to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also writes the result to this file, as Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Tiny sizes, one round: only whether everything works.
    #[arg(long)]
    smoke: bool,
    /// Rounds of each scenario.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Be this peer, and print nanoseconds per operation.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true, value_name = "NAME ARGUMENTS")]
    peer: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if let Some([name, arguments @ ..]) = options.peer.as_deref() {
        println!("{}", peer::serve(name, arguments)?);
        return Ok(());
    }
    if options.list {
        scenario::ALL.iter().for_each(|scenario| println!("{:<12} {}", scenario.name, scenario.about));
        return Ok(());
    }
    let rounds = if options.smoke { 1 } else { usize::from(options.rounds) };
    let effort = Effort { smoke: options.smoke, rounds };
    let (mut results, mut tables, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for scenario in scenario::chosen(&options.scenarios)? {
        if let Some(lack) = (scenario.lacks)() {
            eprintln!("{}: SKIPPED: {lack}", scenario.name);
            skipped.push(Skipped { scenario: scenario.name, lack });
            continue;
        }
        eprintln!("{}: {}", scenario.name, scenario.about);
        let failed = |why| format!("{}: {why}", scenario.name);
        match scenario.run {
            Run::Rows(run) => {
                let rows = run(effort).map_err(failed)?;
                results.push(Measured { scenario: scenario.name, about: scenario.about, rows });
            }
            Run::Table(run) => tables.push(run(effort).map_err(failed)?),
        }
    }
    let report = Report { machine: machine::Machine::look(ours::isolation()?), results, tables, skipped };
    print!("{report}");
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        write(path, &(json + "\n"))?;
    }
    options.markdown.as_ref().map_or(Ok(()), |path| write(path, &report.markdown()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
