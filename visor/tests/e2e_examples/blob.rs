//! A function asks for blobs, and another one, which alone has the files, handles that.

use crate::harness::{Workflow, printed};
use serde_json::json;

#[test]
fn blobs_are_put_together() {
    let ran = Workflow::shipped("blob").run(None, "page");
    assert_eq!(printed(&ran), ["header.txt: 12 bytes", "body.txt: 32 bytes"]);
    assert_eq!(ran.report["steps"][1]["handled"], 2, "{:#}", ran.report);
    assert_eq!(ran.output(), b"# The page\n\nIt was put together from blobs.\n");
}

#[test]
fn a_blob_that_is_not_there_fails_the_asker_with_the_reason() {
    let mut workflow = Workflow::shipped("blob");
    for (name, why) in [
        ("footer.txt", "the handler of effect `blob`, store[0], failed (error): blob \"footer.txt\": "),
        ("../blob/Cargo.toml", "is no name of a blob"),
        ("", "is no name of a blob"),
    ] {
        workflow.set("page", "/args/blobs", json!([name]));
        let ran = workflow.run(None, "page");
        assert!(ran.failure().contains(why), "{}", ran.failure());
    }
}

/// The files are the handler's: the asker cannot read them, nor can the handler without its list.
#[test]
fn a_step_uses_the_file_systems_of_its_list() {
    let mut workflow = Workflow::shipped("blob");
    let probe = crate::harness::root().join("target/images/file-probe.so");
    workflow.document()["functions"]["blob"]["image"] = probe.to_str().expect("UTF-8").into();
    let path = "/blobs/header.txt";
    let tries = json!({ "tries": [["size", path], ["read", path], ["list", "/blobs"], ["list", "/"]] });
    workflow.set("page", "/args", tries);
    workflow.document()["outputs"] = json!([]);
    let denied = printed(&workflow.run(None, None)).join("\n");
    assert_eq!(denied.matches("PermissionDenied").count(), 3, "{denied}");
    // The positive control.
    workflow.set("page", "/files", json!(["/blobs"]));
    let allowed = printed(&workflow.run(None, None)).join("\n");
    assert!(allowed.contains("12 bytes") && !allowed.contains("PermissionDenied"), "{allowed}");
    let mut workflow = Workflow::shipped("blob");
    workflow.set("store", "/files", json!([]));
    let ran = workflow.run(None, "page");
    assert!(ran.failure().contains("blob \"header.txt\": not permitted"), "{}", ran.failure());
}
