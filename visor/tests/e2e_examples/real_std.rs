//! Published crates with their default features, over Rust's own std: `examples/real-std` is a program that names nothing of Monohull's.

use crate::harness::{Workflow, printed};

#[test]
fn published_crates_work_over_rusts_own_std() {
    let ran = Workflow::shipped("real-std").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(
        printed(&ran),
        [
            "std: true true 10 1 2 a file",
            "csv: 2 rows, 6.61",
            "regex: from 12/1999 to 11/2026",
            r#"serde_json: {"name":"Ἀργώ","hulls":1}"#,
            r#"toml: name = "Argo"; hulls = 1; "#,
            "semver: 1.95.0",
            "itertools: 12 > 6 > 2",
            "url: http://[::1]:8000/b%C3%BCcher?q=1#top Some(8000) /b%C3%BCcher",
            "uuid: version 4, different: true",
            "rand: 100 rolls from 1 to 6: true",
            "time: 2027-03-03 is a Wednesday, after 2020: true",
        ]
    );
}
