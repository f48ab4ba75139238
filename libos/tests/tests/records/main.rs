//! Files of a domain that is captured and goes on in another one, through the records of the modules that keep them.

mod edited;
mod history;

use monohull_abi::file::{MountInfo, MountKind};
use monohull_abi::module::ModuleTable;
use monohull_module_testing::{Captured, Domain};

/// A calling instance.
const ME: u32 = 1;

/// File systems before the descriptor table, as records are restored.
fn modules() -> [&'static ModuleTable; 2] {
    [&monohull_libos_ramfs::MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE]
}

/// A domain with files in memory at `/`, and others at `/more`.
fn domain() -> Domain {
    let info = MountInfo { kind: MountKind::Memory, read_only: 0, size: 8 << 20 };
    let domain = Domain::with_mounts(&modules(), vec![(info, "/".to_string()), (info, "/more".to_string())]);
    domain.set_time(1, 1_795_132_800_000_000_000);
    domain
}

fn resume(captured: &Captured) -> Result<Domain, String> {
    Domain::resume(&modules(), captured)
}

/// Goes on in a new domain.
fn moved(domain: Domain) -> Domain {
    let captured = domain.capture().expect("it is at rest");
    drop(domain);
    resume(&captured).expect("a record of our own")
}
