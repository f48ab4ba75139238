//! How far a run came, and what is left of it to be kept.

use std::sync::Arc;

use bytes::Bytes;
use monohull_durable::{Adding, Commit, Left};
use monohull_engine::Ready;
use monohull_worker::{Data, SuspendedRun};

use crate::execution::commit::OwnRow;
use crate::execution::end::Ended;
use crate::http::error::ApiError;
use crate::invocations::invocation::Invocation;
use crate::invocations::residents::WaitOf;
use crate::invocations::workers::Run;

/// How a run came to its end.
pub(crate) enum Came {
    /// The workflow has ended.
    Ended(Box<Ended>),
    /// The workflow waits.
    Suspended(Box<Waiting>),
    /// What it was to go on with is not what it should be.
    Unfit(String),
    /// The host failed before anything of the workflow was run.
    NotBegun(Box<NotBegun>),
    /// Nothing of the workflow was run, and it would be the same at another attempt.
    Refused(Box<ApiError>),
}

/// A run that has not begun.
pub(crate) struct NotBegun {
    pub(crate) refusal: ApiError,
    pub(crate) inputs: Vec<(String, Data)>,
}

/// A run that waits.
pub(crate) struct Waiting {
    pub(crate) run: SuspendedRun,
    /// What fills its input slots, if it may be run again from its beginning.
    pub(crate) inputs: Vec<(String, Data)>,
    /// Its process, if that stays.
    pub(crate) process: Option<Run>,
}

impl From<ApiError> for Came {
    fn from(refusal: ApiError) -> Came {
        Came::Ended(Box::new((None, Err(refusal))))
    }
}

/// A wait whose commit is to be made once more.
pub(crate) struct NotYet {
    pub(crate) both: Arc<(Commit, Left)>,
    pub(crate) resident: Option<WaitOf>,
    pub(crate) adding: Adding,
}

/// A call that was acknowledged.
pub(crate) struct Accepted {
    pub(crate) row: OwnRow,
    pub(crate) invocation: Arc<Invocation>,
    pub(crate) document: Bytes,
    pub(crate) workflow: Arc<Ready>,
}
