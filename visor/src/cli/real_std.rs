//! How cargo builds a crate over Rust's real std: the prebuilt one of the host's target, linked with Monohull's libc.
//!
//! Nothing of the crate changes, so features, build scripts and profiles mean what they mean to cargo. Its command line
//! and its environment name the programs to call:
//!
//! | what | by | is |
//! | --- | --- | --- |
//! | the linker | rustc's flags (`rust_flags.rs`) | `monohull ld` |
//! | the C and C++ compilers of build scripts | `CC_…`, `CXX_…` | `monohull cc`, `monohull c++`; for what runs on the host, the host's |
//! | rustc, for the root of a program | `RUSTC_WORKSPACE_WRAPPER` | `monohull rustc-wrapper` (`program_root.rs`) |
//!
//! Function and host are one target to a build script, so it asks for the same C compiler in both cases. Cargo gives it a folder for what it
//! makes (`OUT_DIR`), and that of a crate which is compiled for the function lies below one that is called after the target; that of one which
//! build scripts or macros use does not.
//!
//! A `configure` of Autoconf starts what it has compiled unless host and target differ. A file that it reads first (`CONFIG_SITE`) says that it
//! compiles for another machine, where the compiler is that of the function.
//!
//! Such a program is one word, so each is a small script in the user's cache. cargo makes a crate anew whose wrapper has another path, so that of
//! `rustc-wrapper` names the content of the libc: crates are linked with the one that is there, also after an upgrade.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::c_toolchain::{Toolchain, ToolchainError};
use super::program_root::{BESIDES, LINKED, this_program};

/// The target whose std is linked: the host's own, which every toolchain has.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// How all crates are compiled: reports follow frame pointers, and rustix calls the libc instead of the kernel.
const FLAGS: [&str; 3] = ["-Cforce-frame-pointers=yes", "-Crelocation-model=pic", "--cfg=rustix_use_libc"];
/// rustc concludes from a linker's name what arguments it takes: those of `ld` are not those of a compiler.
const LINKER: &str = "linker";
const WRAPPER: &str = "rustc-wrapper";
/// What a `configure` of Autoconf reads.
const SITE: &str = "config.site";
const SITE_VARIABLE: &str = "CONFIG_SITE";
/// The user's own such files.
const USERS_SITE: &str = "MONOHULL_CONFIG_SITE";

/// The scripts.
struct Tools {
    folder: PathBuf,
    /// Has the one that is called for the crate itself.
    of_libc: PathBuf,
}

impl Tools {
    /// Writes those that are not there. They are called after this program, so that another one has its own.
    fn make(cache: &Path, libc: &[u8]) -> io::Result<Tools> {
        let program = this_program();
        let folder = cache.join(format!("tools-{}", short_hash(program.as_os_str().as_encoded_bytes())));
        let of_libc = folder.join(short_hash(libc));
        fs::create_dir_all(&of_libc)?;
        let quoted = program.to_string_lossy().replace('\'', r"'\''");
        let run = |verb: &str| format!("#!/bin/sh\nexec '{quoted}' {verb} \"$@\"\n");
        let quoted_folder = folder.to_string_lossy().replace('\'', r"'\''");
        // A `configure` has the script itself as `CC`.
        let compiler = |verb: &str, host: &str, name: &str| {
            format!(
                "#!/bin/sh\ncase \"$OUT_DIR/\" in\n/ | */{TARGET}/*) exec '{quoted}' {verb} \"$@\" ;;\nesac\nhost={host}\n\
                 case $host in *'{quoted_folder}/'*) host={name} ;; esac\nexec $host \"$@\"\n"
            )
        };
        // Where the user names none, Autoconf looks for two below the folder that is installed to.
        let site = format!(
            "case \"$OUT_DIR/\" in\n/ | */{TARGET}/*) case \"$CC\" in *'{quoted_folder}/'*) cross_compiling=yes ;; esac ;;\nesac\n\
             monohull_prefix=$prefix\ntest \"x$prefix\" = xNONE && monohull_prefix=$ac_default_prefix\n\
             for monohull_site in ${{{USERS_SITE}:-$monohull_prefix/share/config.site $monohull_prefix/etc/config.site}}; do\n\
             case $monohull_site in */*) ;; *) monohull_site=./$monohull_site ;; esac\n\
             if test -r \"$monohull_site\"; then . \"$monohull_site\"; fi\ndone\n"
        );
        for (folder, name, text) in [
            (&folder, "cc", compiler("cc", "${HOST_CC:-${CC:-cc}}", "cc")),
            (&folder, "c++", compiler("c++", "${HOST_CXX:-${CXX:-c++}}", "c++")),
            (&folder, LINKER, run("ld")),
            (&folder, SITE, site),
            (&of_libc, WRAPPER, run(WRAPPER)),
        ] {
            let path = folder.join(name);
            if fs::read_to_string(&path).is_ok_and(|old| old == text) {
                continue;
            }
            let aside = folder.join(format!("{name}.{}", std::process::id()));
            fs::write(&aside, text)?;
            fs::set_permissions(&aside, fs::Permissions::from_mode(0o755))?;
            fs::rename(&aside, &path)?;
        }
        Ok(Tools { folder, of_libc })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The beginning of a hash, for the name of a folder.
fn short_hash(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes)[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why cargo cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum PrepareError {
    #[error("{0}")]
    Toolchain(#[from] NoToolchain),
    #[error("the tools for cargo cannot be written to {}: {source}", monohull_report::escape::shown(folder))]
    Tools { folder: PathBuf, source: io::Error },
}

/// The libc for functions is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoToolchain(String);

impl From<ToolchainError> for PrepareError {
    fn from(error: ToolchainError) -> PrepareError {
        PrepareError::Toolchain(NoToolchain(error.to_string()))
    }
}

/// Prepares a command of cargo that builds for [`TARGET`], and gives rustc's flags for it. Tools are kept in the folder `cache`.
pub(super) fn prepare(cargo: &mut Command, cache: &Path) -> Result<Vec<OsString>, PrepareError> {
    let toolchain = Toolchain::find()?;
    let tools = Tools::make(cache, &toolchain.content()?);
    let tools = tools.map_err(|source| PrepareError::Tools { folder: cache.to_path_buf(), source })?;
    let mut flags = Vec::from(FLAGS.map(OsString::from));
    let mut linker = OsString::from("-Clinker=");
    linker.push(tools.path(LINKER));
    flags.push(linker);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", tools.of_libc.join(WRAPPER)).env(LINKED, BESIDES);
    cargo.env("CC_x86_64_unknown_linux_gnu", tools.path("cc"));
    cargo.env("CXX_x86_64_unknown_linux_gnu", tools.path("c++"));
    if let Some(users) = std::env::var_os(SITE_VARIABLE) {
        cargo.env(USERS_SITE, users);
    }
    cargo.env(SITE_VARIABLE, tools.path(SITE));
    // The host's libraries are for another libc.
    cargo.env("PKG_CONFIG_LIBDIR", toolchain.libraries().join("pkgconfig"));
    Ok(flags)
}
