//! Files of a server's state folder that were changed: an answer has what was kept, or an error that names the file, and what is put again is whole.

mod serve_support;

use serve_support::{Server, StateFolder};
use std::fs;
use std::path::PathBuf;

/// The files that invocations have, and no others.
fn files(state: &StateFolder) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.path().join("durable/files")).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Changes one byte.
fn damage(path: &PathBuf) {
    let mut bytes = fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("written");
}

#[test]
fn an_output_that_was_changed_is_an_error_that_names_its_file() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    let body = vec![b'x'; 3 << 20];
    let location = server.post("/async-invoke/echo", &body).expect(202).headers["location"].clone();
    let shown = server.ended(&location);
    let output = shown["result"]["out"]["href"].as_str().expect("an address");
    assert!(server.get(output).expect(200).body == body);
    let large = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() == body.len() as u64);
    let path = files(&state).into_iter().find(large).expect("it is a file");
    damage(&path);
    let error = server.get(output).error(500, "host", "host");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains(path.to_str().expect("text")) && message.contains("changed"), "{message}");
    // The same again is put in its place.
    let again = server.post("/async-invoke/echo", &body).expect(202).headers["location"].clone();
    assert_eq!(server.ended(&again)["status"], "completed");
    assert!(server.get(output).expect(200).body == body);
}

/// The document, the image and the input of a call are files that another call has put. A file that is only there is not enough.
#[test]
fn what_a_call_needs_is_put_again_where_it_was_changed() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    server.post("/async-invoke/echo?id=first&delay=1d", b"said").expect(202);
    let put = files(&state);
    assert_eq!(put.len(), 3, "{put:?}");
    let before = put.iter().map(|path| fs::read(path).expect("it is there"));
    let before: Vec<_> = before.collect();
    for round in ["second", "third"] {
        put.iter().for_each(damage);
        server.post(&format!("/async-invoke/echo?id={round}"), b"said").expect(202);
        let shown = server.ended(&format!("/invocations/{round}"));
        assert_eq!(shown["result"]["out"]["text"], "said", "{shown:#}");
        for (path, bytes) in put.iter().zip(&before) {
            assert!(fs::read(path).expect("it is there") == *bytes, "{}", path.display());
        }
    }
}
