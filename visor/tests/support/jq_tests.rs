//! The files of tests that jq brings along, and how many tests each has: run natively and as WebAssembly.

/// Of the folder `tests` of its source.
pub(crate) const FILES: [(&str, u32); 6] = [
    ("jq.test", 447),
    ("man.test", 224),
    ("manonig.test", 17),
    ("onig.test", 40),
    ("base64.test", 7),
    ("optional.test", 3),
];
