//! Mistakes that a server finds in a document, shown where they stand in the file that the document was made of.
//!
//! A server knows neither the file's name nor its lines: its message has places in the document, and a name of its own for it.
//! So the message is written anew.

use std::path::Path;

use serde_json::json;

use super::client::ClientError;
use monohull_workflow::{Mistake, WorkflowError};

/// What the last line of a message begins with that does not list all mistakes.
const MORE: &str = "… and ";

/// The same error with the mistakes in it, if there are any, at their places in a file. `place` gives these from line and column.
pub(super) fn placed(error: ClientError, file: &Path, place: impl Fn(usize, usize) -> (usize, usize)) -> ClientError {
    let ClientError::Refused { status, mut document } = error else { return error };
    let found = serde_json::from_value(document["error"]["mistakes"].clone());
    let mut mistakes: Vec<Mistake> = found.unwrap_or_default();
    if !mistakes.is_empty() {
        for mistake in &mut mistakes {
            file.clone_into(&mut mistake.file);
            (mistake.line, mistake.column) = place(mistake.line, mistake.column);
        }
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        document["error"]["mistakes"] = json!(mistakes);
        let more = document["error"]["message"].as_str().and_then(|message| message.lines().next_back());
        let more = more.filter(|line| line.starts_with(MORE)).map(|line| format!("\n{line}")).unwrap_or_default();
        document["error"]["message"] = format!("{}{more}", WorkflowError::Mistakes { mistakes }).into();
    }
    ClientError::Refused { status, document }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;

    #[test]
    fn mistakes_have_the_name_and_the_places_of_the_file() {
        let mistake = |line, message| {
            json!({
                "level": "error", "file": "w.json", "line": line, "column": 1, "message": message, "blame": "workflow",
            })
        };
        let document = json!({ "error": {
            "kind": "invalid",
            "message": "w.json:1:1: one\nw.json:2:1: two\n… and 3 more",
            "mistakes": [mistake(1, "one"), mistake(2, "two")],
        } });
        let error = ClientError::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, document };
        let placed = placed(error, Path::new("dir/file.json"), |line, column| (10 - line, column + 4));
        let ClientError::Refused { document, .. } = placed else { panic!("{placed}") };
        let message = "dir/file.json:8:5: two\ndir/file.json:9:5: one\n… and 3 more";
        assert_eq!(document["error"]["message"], message);
        assert_eq!(document["error"]["mistakes"][0]["file"], "dir/file.json");
        assert_eq!(document["error"]["mistakes"][0]["line"], 8);
    }
}
