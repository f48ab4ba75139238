//! musl's source.

use crate::source::Source;

pub(super) const MUSL: Source = Source {
    name: "musl",
    version: "1.2.6",
    addresses: [
        "http://deb.debian.org/debian/pool/main/m/musl/musl_1.2.6.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/m/musl/musl_1.2.6.orig.tar.gz",
    ],
    sha256: "d585fd3b613c66151fc3249e8ed44f77020cb5e6c1e635a616d3f9f82460512a",
};
