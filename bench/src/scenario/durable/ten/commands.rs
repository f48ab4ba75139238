//! The things that are done by commands, without a server.

use super::super::timed;
use crate::harness::{Effort, Result, Samples};
use crate::ours::{image, scratch};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The exit code of a command that leaves an invocation which waits.
const SUSPENDED: i32 = 4;
/// Rounds of a computation by which its speed is known.
const FEW: u64 = 200_000_000;
/// Save points that are gone back to.
const CHOSEN: [u64; 5] = [500, 3, 999, 250, 750];

/// A folder with a workflow of one step in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, function: &str, args: &Value) -> Result<Place> {
        let folder = scratch()?.join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let workflow = json!({
            "name": name,
            "functions": { "f": { "image": image(function) } },
            "steps": [{ "name": "main", "function": "f", "args": args }],
            "outputs": ["result"],
        });
        let file = folder.join("w.json");
        fs::write(&file, workflow.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Place(folder))
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut command = Command::new(program.with_file_name("monohull"));
        command.args(arguments).current_dir(&self.0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Runs a command to its end; how long it takes, in nanoseconds.
    fn run(&self, arguments: &[&str], code: i32) -> Result<f64> {
        let mut command = self.command(arguments)?;
        timed(|| {
            let status = command.status().map_err(|error| format!("monohull: {error}"))?;
            if status.code() == Some(code) {
                Ok(())
            } else {
                Err(format!("monohull {} ended with {status}", arguments.join(" ")))
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A computation is killed two thirds into it and gone on with: what was done twice, and how much longer it takes with checkpoints when nothing is
/// killed.
pub(super) fn computation(effort: Effort) -> Result<String> {
    let args = |rounds: u64| json!({ "how": "compute", "rounds": rounds });
    let run = |place: &Path, every: Option<&str>| -> Vec<String> {
        let _ = fs::remove_dir_all(place.join("state"));
        let mut words = vec!["run", "w.json", "--state", "state", "--id", "one", "--output", "result=result.txt"];
        words.extend(every.iter().flat_map(|every| ["--checkpoint-every", every]));
        words.into_iter().map(str::to_owned).collect()
    };
    let to_its_end = |place: &Place, every: Option<&str>| {
        let words = run(&place.0, every);
        place.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), 0)
    };
    let known = Place::new("bench-computes", "preempted", &args(FEW))?;
    let of_few = to_its_end(&known, None)?;
    let (seconds, every, interval) = effort.size((10.0, "2s", 2.0), (0.6, "200ms", 0.2));
    let place = Place::new("bench-computes", "preempted", &args((seconds * 1e9 / of_few * FEW as f64) as u64))?;
    let (plain, with) = (to_its_end(&place, None)?, to_its_end(&place, Some(every))?);
    let words = run(&place.0, Some(every));
    let begin = Instant::now();
    let mut killed = place.command(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut killed = killed.spawn().map_err(|error| format!("monohull: {error}"))?;
    std::thread::sleep(Duration::from_nanos((plain * 0.66) as u64));
    let ended = killed.kill().and_then(|()| killed.wait());
    let before = begin.elapsed().as_nanos() as f64;
    ended.map_err(|error| format!("monohull: {error}"))?;
    // The process of the run may live for a moment longer, and hold it.
    let after = place.run(&["wake", "--state", "state", "--wait"], 0)?;
    let lost = (before + after - with).max(0.0) / 1e9;
    let cost = (with / plain - 1.0) * 100.0;
    Ok(format!("{lost:.2} s of {interval} s, {cost:.1} %"))
}

/// How long the command takes that takes an invocation back to one of its save points, in nanoseconds.
pub(super) fn rewound(effort: Effort) -> Result<f64> {
    let count = effort.size(1000, 5_u64);
    let place = Place::new("bench-points", "bench-probe", &json!({ "what": "points", "count": count }))?;
    let keep = count.to_string();
    place.run(
        &["run", "w.json", "--state", "state", "--id", "one", "--keep", &keep, "--detach", "--output", "result=r.txt"],
        SUSPENDED,
    )?;
    place.run(&["wake", "--state", "state", "--wait"], 0)?;
    let mut times = Vec::new();
    for chosen in CHOSEN.iter().map(|chosen| chosen % count) {
        let label = format!("point {chosen}");
        times.push(place.run(&["rewind", "one", "--to", &label, "--state", "state", "--paused"], 0)?);
    }
    Ok(Samples::of(times).median)
}
