//! The workflow's file systems, opened before its domain exists.

use crate::domain::files::{Mount, Source};
use crate::workflow::Plan;
use crate::workflow::plan::{self, MountSource};
use std::sync::Arc;

/// Opens every mount of a plan.
pub(super) fn open(plan: &Plan) -> Arc<[Mount]> {
    let open = |mount: &plan::Mount| Mount {
        point: mount.point.clone(),
        source: match mount.source {
            MountSource::Memory { size } => Source::Memory { size },
        },
    };
    plan.files.iter().map(open).collect()
}
