//! Starting programs.

use crate::{Result, workspace};
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// The cargo that started us, in the workspace's root.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace::root());
    command
}

/// Runs a program to its end; failing is an error that shows the command line.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("cannot start {}: {error}", show(command)))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} ended with {status}", show(command))),
    }
}

/// Runs programs to their ends, as many at a time as there are processors.
pub(crate) fn run_all(commands: Vec<Command>) -> Result {
    let next = Mutex::new(commands.into_iter());
    let take = || next.lock().expect("no thread panics with it").next();
    let work = || -> Result {
        while let Some(mut command) = take() {
            run(&mut command)?;
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

/// Does chores beside each other, each to its end: the error of the first in their order that failed.
pub(crate) fn side_by_side(chores: &[&(dyn Fn() -> Result + Sync)]) -> Result {
    thread::scope(|scope| {
        let threads: Vec<_> = chores.iter().map(|chore| scope.spawn(chore)).collect();
        let ended: Vec<Result> =
            threads.into_iter().map(|thread| thread.join().expect("a chore does not panic")).collect();
        ended.into_iter().collect()
    })
}

/// Runs a program to its end and gives its standard output.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    command.stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot start {}: {error}", show(command)))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{} ended with {}", show(command), output.status)),
    }
}

/// The command line, for messages.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A heading between chores.
pub(crate) fn heading(text: &str) {
    eprintln!("\n== {text}");
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use std::sync::Barrier;

    #[test]
    fn chores_are_done_at_the_same_time_and_each_to_its_end() {
        let both = Barrier::new(2);
        let meets = || {
            both.wait();
            Ok(())
        };
        let fails = || {
            both.wait();
            Err("it failed".to_owned())
        };
        assert_eq!(side_by_side(&[&meets, &meets]), Ok(()));
        assert_eq!(side_by_side(&[&meets, &fails]), Err("it failed".to_owned()));
        assert_eq!(side_by_side(&[]), Ok(()));
    }
}
