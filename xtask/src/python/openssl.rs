//! OpenSSL for the modules `ssl` and `_hashlib`: its two libraries, static, with what TLS 1.2, TLS 1.3, certificates and hashes need.
//!
//! Its own `Configure` and `make` build it, with `monohull cc` as the compiler. Its assembly, by which AES and SHA use the processor's
//! instructions for them, is accepted by the instruction checker as it is.

use crate::source::Source;
use crate::{Result, apt, libc, shell};
use std::path::Path;
use std::process::{Command, Stdio};

/// OpenSSL's branch with long-term support, as Debian 13 has it.
pub(super) const SOURCE: Source = Source {
    name: "openssl",
    version: "3.5.7",
    addresses: [
        "http://deb.debian.org/debian/pool/main/o/openssl/openssl_3.5.7.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/o/openssl/openssl_3.5.7.orig.tar.gz",
    ],
    sha256: "a8c0d28a529ca480f9f36cf5792e2cd21984552a3c8e4aa11a24aa31aeac98e8",
};

/// How it is configured. Certificates are looked for where Debian has them, so a workflow that mounts these has them.
pub(super) const CONFIGURE: &[&str] = &[
    "linux-x86_64",
    "--prefix=/",
    "--openssldir=/etc/ssl",
    // Loading of libraries, programs, tests, files.
    "no-shared",
    "no-dso",
    "no-engine",
    "no-module",
    "no-apps",
    "no-tests",
    "no-docs",
    "no-autoload-config",
    // What Python has no functions for.
    "no-async",
    "no-cmp",
    "no-cms",
    "no-comp",
    "no-ct",
    "no-dtls",
    "no-http",
    "no-nextprotoneg",
    "no-ocsp",
    "no-quic",
    "no-rfc3779",
    "no-secure-memory",
    "no-srp",
    "no-srtp",
    "no-ssl-trace",
    "no-ts",
    "no-ui-console",
    // Devices.
    "no-afalgeng",
    "no-padlockeng",
    // Algorithms that are no part of TLS today.
    "no-legacy",
    "no-aria",
    "no-bf",
    "no-camellia",
    "no-cast",
    "no-dsa",
    "no-ec2m",
    "no-gost",
    "no-idea",
    "no-md4",
    "no-mdc2",
    "no-ml-dsa",
    "no-rc2",
    "no-rc4",
    "no-rc5",
    "no-seed",
    "no-siphash",
    "no-siv",
    "no-slh-dsa",
    "no-sm2",
    "no-sm3",
    "no-sm4",
    "no-whirlpool",
    // What is not assembly is no part of a loop over data.
    "CFLAGS=-O1 -w",
];

/// The libraries, in the order of linking.
pub(super) const ARCHIVES: [&str; 2] = ["libssl.a", "libcrypto.a"];

/// Builds it in `work`, and puts headers and archives into `to` as an installation has them; the licence as well.
pub(super) fn build(monohull: &Path, work: &Path, to: &Path) -> Result {
    apt::remove(work)?;
    SOURCE.unpack(work)?;
    shell::heading(&format!("compile {} {}", SOURCE.name, SOURCE.version));
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(work).stdout(Stdio::null()).env("MONOHULL_LIBC", libc::folder());
        command
    };
    let cc = format!("{} cc", monohull.display());
    shell::run(command("perl").arg("Configure").args(CONFIGURE).env("CC", cc))?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = command("make");
    make.arg("--silent").arg(format!("--jobs={processors}"));
    shell::run(make.arg("build_generated"))?;
    let mut make = command("make");
    make.arg("--silent").arg(format!("--jobs={processors}"));
    shell::run(make.args(ARCHIVES))?;
    for (from, to) in [("include/openssl", to.join("include")), ("LICENSE.txt", to.to_owned())] {
        apt::make(&to)?;
        shell::run(Command::new("cp").arg("-r").arg(work.join(from)).arg(to))?;
    }
    let archives = to.join("lib");
    apt::make(&archives)?;
    shell::run(Command::new("cp").args(ARCHIVES.map(|archive| work.join(archive))).arg(archives))?;
    apt::remove(work)
}
