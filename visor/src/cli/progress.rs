//! What a person sees while a workflow runs: one moving line per running step, and what functions print.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::output;
use monohull_report::escape::Line;
use monohull_report::{Progress, Stream};

/// Shows progress on standard error if that is a terminal, and passes on what functions print.
pub(super) struct Terminal {
    bars: MultiProgress,
    running: Mutex<HashMap<String, ProgressBar>>,
    /// What functions print is not escaped.
    raw: bool,
}

impl Terminal {
    pub(super) fn new(raw: bool) -> Terminal {
        // Draws nothing when standard error is not a terminal.
        Terminal { bars: MultiProgress::new(), running: Mutex::default(), raw }
    }

    fn with_bar(&self, step: &str, act: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = self.lock().get(step) {
            act(bar);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, ProgressBar>> {
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Progress for Terminal {
    fn step_started(&self, step: &str, instances: u32) {
        let template = "{spinner} {prefix:20!} {wide_bar} {pos}/{len} {elapsed:>6}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(instances.into()).with_style(style).with_prefix(step.to_owned());
        let bar = self.bars.add(bar);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        self.lock().insert(step.to_owned(), bar);
    }

    fn instance_ended(&self, step: &str, _index: u32, _ok: bool) {
        self.with_bar(step, |bar| bar.inc(1));
    }

    fn step_ended(&self, step: &str) {
        if let Some(bar) = self.lock().remove(step) {
            bar.finish_and_clear();
        }
    }

    fn line(&self, step: &str, index: u32, stream: Stream, text: &str) {
        let text = if self.raw { text.to_owned() } else { Line(text).to_string() };
        let line = format!("{step}[{index}] | {text}\n");
        self.bars.suspend(|| match stream {
            Stream::Stdout => drop(output::bytes(line.as_bytes())),
            Stream::Stderr => output::note_bytes(line.as_bytes()),
        });
    }
}
