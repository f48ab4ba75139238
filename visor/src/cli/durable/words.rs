//! Words that verbs say of an invocation alike, whether it is a folder's or a server's.

/// What `show` has a line for, in this order, if the invocation has it: a folder keeps no versions of workflows.
pub(super) const SHOWN: [&str; 12] = [
    "id",
    "workflow",
    "status",
    "becomes",
    "reason",
    "version",
    "started",
    "changed",
    "due",
    "mail",
    "generation",
    "attempts",
];

/// What is said of one that runs: it comes to its end, or to its next wait or checkpoint, where it is stopped.
pub(super) const UNLESS_IT_ENDS: &str = ", unless it ends before";

/// What is said of the other copies where the id of one is taken.
pub(super) fn others_made(some: bool) -> &'static str {
    if some { "; those with other ids are" } else { "" }
}
