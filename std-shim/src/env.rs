//! A function's arguments and its environment.
//!
//! The step's `args` are a JSON object. A program sees them as std's `args()`: the function's name, then `--name=value`
//! for each member in the order of the file (text as it is, other values as JSON). A function asks by name instead:
//! [`arg`], or the parameters of `#[monohull::main]`.

use crate::ffi::{OsStr, OsString};
use crate::io;
use crate::path::{Path, PathBuf};
use crate::string::{String, ToString};
use crate::sync::OnceLock;
use crate::vec::{self, Vec};
use crate::{error, fmt, format, sys};
#[cfg(not(any(test, panic = "unwind")))]
use monohull::rt::arguments;
use monohull::rt::parse;
use monohull_abi::types::InfoString;
use serde_json::Value;

pub(crate) use monohull::rt::members;
pub use monohull::{ArgError, arg, try_arg};

/// A unit test has none.
#[cfg(any(test, panic = "unwind"))]
fn arguments() -> &'static [(String, Value)] {
    &[]
}

fn as_words(function: String, members: &[(String, Value)]) -> Vec<String> {
    let word = |(name, value): &(String, Value)| match value {
        Value::String(text) => format!("--{name}={text}"),
        other => format!("--{name}={other}"),
    };
    [function].into_iter().chain(members.iter().map(word)).collect()
}

/// The function's name and its arguments.
pub fn args() -> Args {
    Args(as_words(sys::info_string(InfoString::Function), arguments()).into_iter())
}

/// The same as [`args`], for programs that do not expect text.
pub fn args_os() -> ArgsOs {
    ArgsOs(args())
}

/// What [`args_os`] returns.
#[derive(Debug)]
pub struct ArgsOs(Args);

/// What [`vars_os`] returns.
#[derive(Debug)]
pub struct VarsOs(Vars);

/// What [`args`] returns.
#[derive(Debug)]
pub struct Args(vec::IntoIter<String>);

/// What [`vars`] returns.
#[derive(Debug)]
pub struct Vars(vec::IntoIter<(String, String)>);

macro_rules! forward_iterator {
    ($type:ty => $item:ty, $convert:expr) => {
        impl Iterator for $type {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.0.next().map($convert)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl DoubleEndedIterator for $type {
            fn next_back(&mut self) -> Option<$item> {
                self.0.next_back().map($convert)
            }
        }

        impl ExactSizeIterator for $type {}
    };
}

forward_iterator!(Args => String, |word| word);
forward_iterator!(Vars => (String, String), |pair| pair);
forward_iterator!(ArgsOs => OsString, OsString::from);
forward_iterator!(VarsOs => (OsString, OsString), |(name, value)| (name.into(), value.into()));

/// What a program can know of where it runs. It is Linux to the processor, and nothing to the eye.
pub mod consts {
    /// The processor.
    pub const ARCH: &str = "x86_64";
    /// The family of operating systems whose names and numbers are used here.
    pub const FAMILY: &str = "unix";
    /// The operating system.
    pub const OS: &str = "monohull";
    /// Of shared libraries, if there were any.
    pub const DLL_PREFIX: &str = "lib";
    /// Of shared libraries, if there were any.
    pub const DLL_SUFFIX: &str = ".so";
    /// Of shared libraries, if there were any.
    pub const DLL_EXTENSION: &str = "so";
    /// Of programs.
    pub const EXE_SUFFIX: &str = "";
    /// Of programs.
    pub const EXE_EXTENSION: &str = "";
}

fn variables() -> &'static [(String, String)] {
    static VARIABLES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    VARIABLES.get_or_init(|| parse(&sys::info_string(InfoString::Env)))
}

/// The step's environment.
pub fn vars() -> Vars {
    Vars(variables().to_vec().into_iter())
}

/// The same as [`vars`], for programs that do not expect text.
pub fn vars_os() -> VarsOs {
    VarsOs(vars())
}

/// Why [`var`] has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VarError {
    /// The step's environment has no such variable.
    NotPresent,
    /// Its value is not UTF-8. Cannot happen: the workflow file is.
    NotUnicode(OsString),
}

impl fmt::Display for VarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VarError::NotPresent => f.write_str("environment variable not found"),
            VarError::NotUnicode(value) => write!(f, "environment variable was not valid unicode: {value:?}"),
        }
    }
}

impl error::Error for VarError {}

/// A variable of the step's environment.
pub fn var<K: AsRef<OsStr>>(key: K) -> Result<String, VarError> {
    let key = key.as_ref();
    let found = variables().iter().find(|(name, _)| OsStr::new(name) == key);
    found.map(|(_, value)| value.to_string()).ok_or(VarError::NotPresent)
}

/// The same as [`var`], for programs that do not expect text.
pub fn var_os<K: AsRef<OsStr>>(key: K) -> Option<OsString> {
    var(key).ok().map(OsString::from)
}

/// The directory that relative paths count from; the root at first. The threads of an instance share it.
pub fn current_dir() -> io::Result<PathBuf> {
    sys::files::working_directory().map(PathBuf::from)
}

/// Changes the directory that relative paths count from.
pub fn set_current_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    sys::files::change_directory(path.as_ref().as_str())
}

/// Where temporary files go, if the workflow mounts something there.
pub fn temp_dir() -> PathBuf {
    PathBuf::from(var("TMPDIR").unwrap_or_else(|_| "/tmp".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"count": 3, "pattern": "a b", "sizes": [1, 2], "on": true, "nothing": null, "wide": -1}"#;

    #[test]
    fn words_keep_the_order_of_the_file() {
        let words = as_words("grep".to_string(), &parse(TEXT));
        let expected =
            ["grep", "--count=3", "--pattern=a b", "--sizes=[1,2]", "--on=true", "--nothing=null", "--wide=-1"];
        assert_eq!(words, expected);
    }
}
