//! The files that a workflow file refers to: where each reference stands in the text.
//!
//! The document alone says whether a workflow is well-formed. Whether the images, disk images, directories and input files that
//! it names are there, and are what they should be, is a question about this host; `monohull validate` asks it.

use std::path::{Path, PathBuf};

use super::plan::{Making, Mount, Plan, registered_name};
use super::source::{Blame, Level, Mistake, Source};

/// Something on this host that a workflow file refers to.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'p> {
    /// The image of a function.
    Function {
        /// The function's name.
        name: &'p str,
        /// The image's file.
        image: &'p Path,
        /// How an image is made of it, if it is a program.
        making: Making,
    },
    /// A mount.
    Mount(&'p Mount),
    /// The file that fills an input slot.
    Input(&'p Path),
}

/// Has `judge` look at everything that the plan made of these bytes of a file refers to. What it finds wrong becomes a mistake at
/// the place of the reference, in the order of the file.
///
/// An input file that is missing is a warning: `run --input` may name another.
pub fn references(
    file: &Path,
    bytes: &[u8],
    plan: &Plan,
    mut judge: impl FnMut(Reference<'_>) -> Result<(), (Blame, String)>,
) -> Vec<Mistake> {
    let text = String::from_utf8_lossy(bytes);
    let source = Source::new(file, text.strip_prefix('\u{feff}').unwrap_or(&text));
    let mut mistakes = Vec::new();
    let mut judge_at = |path: &[&str], level, reference| {
        if let Err((blame, message)) = judge(reference) {
            mistakes.push(Mistake { blame, ..source.mistake(source.find(path), level, message, None) });
        }
    };
    for function in &plan.functions {
        let (name, image): (&str, &PathBuf) = (&function.name, &function.image);
        // Only a server knows those that it has registered.
        if registered_name(image).is_none() {
            let reference = Reference::Function { name, image, making: function.making };
            judge_at(&["functions", name, "image"], Level::Error, reference);
        }
    }
    for (index, mount) in plan.files.iter().enumerate() {
        judge_at(&["files", &index.to_string()], Level::Error, Reference::Mount(mount));
    }
    for (index, input) in plan.inputs.iter().enumerate() {
        if let Some(path) = &input.path {
            judge_at(&["inputs", &index.to_string(), "path"], Level::Warning, Reference::Input(path));
        }
    }
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    mistakes
}
