//! How far an invocation is, and whether its client waits for it.

use serde::Serialize;

/// How far an invocation is, durable or not: the same words as [`monohull_durable::Status`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// It waits in the queue, or for the time at which it begins.
    Pending,
    /// A worker process runs it.
    Running,
    /// Of a durable one: it waits as a checkpoint.
    Suspended,
    /// Of a durable one: it goes on by hand alone.
    Paused,
    /// It did its work.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled, or its client disconnected.
    Cancelled,
}

impl From<monohull_durable::Status> for Status {
    fn from(status: monohull_durable::Status) -> Status {
        match status {
            monohull_durable::Status::Pending => Status::Pending,
            monohull_durable::Status::Running => Status::Running,
            monohull_durable::Status::Suspended => Status::Suspended,
            monohull_durable::Status::Paused => Status::Paused,
            monohull_durable::Status::Completed => Status::Completed,
            monohull_durable::Status::Failed => Status::Failed,
            monohull_durable::Status::Cancelled => Status::Cancelled,
        }
    }
}

impl Status {
    /// All of them.
    pub(crate) const ALL: [Status; 7] = [
        Status::Pending,
        Status::Running,
        Status::Suspended,
        Status::Paused,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// Whether the status is final.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// Its name, as in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::Pending => "pending",
            Status::Suspended => "suspended",
            Status::Paused => "paused",
            Status::Completed => "completed",
        }
    }
}

/// Whether the client waits for the answer on the same connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Sync,
    Async,
}
