//! `std::env` and `std::process`: what the test passes in.

use super::check;
use std::env::{self, VarError};
use std::process;

pub(super) fn all() {
    check!("arguments", env::args().skip(1).collect::<Vec<_>>());
    check!("arguments_from_both_ends", {
        let mut args = env::args();
        args.next();
        (args.len(), args.next_back(), args.size_hint())
    });
    check!("variable", (env::var("HULL"), env::var("EMPTY"), env::var("NOT_THERE")));
    check!("variables", {
        let mut all: Vec<_> = env::vars().filter(|(name, _)| name == "HULL" || name == "EMPTY").collect();
        all.sort();
        all
    });
    check!("arguments_that_need_not_be_text", std::env::args_os().skip(1).collect::<Vec<_>>());
    check!(
        "variables_that_need_not_be_text",
        (
            env::var_os("HULL"),
            env::var_os("NOT_THERE"),
            env::vars_os().any(|(name, value)| name == "HULL" && value == "steel")
        )
    );
    check!("variable_by_other_types", (env::var(std::ffi::OsStr::new("HULL")), env::var(std::path::Path::new("HULL"))));
    check!("terminals", {
        use std::io::IsTerminal;
        (std::io::stdin().is_terminal(), std::io::stdout().is_terminal())
    });
    check!("variable_errors", (VarError::NotPresent.to_string(), env::var("").is_err(), env::var("A=B").is_err()));
    check!("variable_by_string", env::var(String::from("HULL")));
    check!(
        "compiled_in",
        (env!("CARGO_PKG_VERSION"), option_env!("SURELY_NOT_THERE"), env::consts::ARCH, env::consts::FAMILY)
    );
    check!("operating_system", env::consts::OS);
    check!("process_id", process::id() > 0);
    check!(
        "exit_codes",
        (
            process::ExitCode::SUCCESS == process::ExitCode::from(0),
            process::ExitCode::default() == process::ExitCode::SUCCESS,
            process::ExitCode::FAILURE == process::ExitCode::from(1)
        )
    );
    check!(
        "places",
        (file!().ends_with("environment.rs"), line!() > 0, module_path!().ends_with("suite::environment"))
    );
}
