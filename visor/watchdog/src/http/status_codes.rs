//! Which status codes a request may be refused with, by its route and method.
//!
//! `openapi.json` has the same codes, and a test compares the two. That an answer keeps to them is checked when it is given, in
//! builds with debug assertions, which tests are made with.

use hyper::Method;

use crate::http::routes::{Route, TABLE};

/// The head is ambiguous, a name or a parameter is wrong, or TLS is missing.
const HEAD: &[u16] = &[400];
/// The token is wrong, or the request comes from another site's page.
const SENDER: &[u16] = &[401, 403];
/// The name is not there.
const NAME: &[u16] = &[404];
/// It was removed, or is not waited for any more.
const GONE: &[u16] = &[410];
/// The body does not arrive, or is not understood.
const BODY: &[u16] = &[400, 408, 413, 415, 429, 500];
/// The body does not arrive; what it is does not matter.
const CONTENT: &[u16] = &[400, 408, 413, 429, 500];
/// An image or a document is wrong, or lacks what it refers to.
const CHECK: &[u16] = &[422, 500];
/// Something is in use, or was removed meanwhile.
const USE: &[u16] = &[409];
/// The state folder does not take it.
const STATE: &[u16] = &[500, 503, 507];
/// There is no place for another invocation, or the server ends.
const PLACE: &[u16] = &[429, 503];
/// The workflow fails, or cannot be run.
const RUN: &[u16] = &[500, 502, 503, 504];
/// The server does not take work.
const READINESS: &[u16] = &[503];
/// The answer cannot be made, or there is no room for it.
const ANSWER: &[u16] = &[500, 503];
/// There is no room for the answer.
const ROOM: &[u16] = &[503];

impl Route {
    /// What may go wrong with a request after its head and its sender have been looked at.
    fn stages(self, method: &Method) -> &'static [&'static [u16]] {
        let (put, delete, post) = (*method == Method::PUT, *method == Method::DELETE, *method == Method::POST);
        match self {
            Route::Readyz | Route::Healthz => &[READINESS],
            Route::Function if put => &[BODY, CHECK, USE, STATE],
            Route::Function if delete => &[NAME, USE, STATE],
            Route::Workflow if put => &[BODY, CHECK, STATE],
            Route::Workflow if delete => &[NAME, USE, STATE],
            Route::WorkflowVersions => &[NAME, STATE],
            Route::WorkflowMigrate => &[NAME, CHECK, BODY, USE, STATE],
            Route::Schedules => &[STATE],
            Route::Schedule if put => &[BODY, CHECK, STATE],
            Route::Schedule => &[NAME, STATE],
            Route::Workflow | Route::InvocationLogs => &[NAME, ANSWER],
            Route::Invoke => &[NAME, CHECK, BODY, USE, PLACE, RUN, STATE],
            Route::Http => &[NAME, CHECK, CONTENT, PLACE, RUN, STATE],
            Route::AsyncInvoke => &[NAME, CHECK, BODY, USE, PLACE, STATE],
            Route::Run => &[BODY, CHECK, USE, PLACE, RUN],
            Route::Validate => &[BODY, CHECK],
            Route::Invocation if delete => &[NAME, STATE],
            Route::Invocation | Route::InvocationOutput => &[NAME, ANSWER],
            Route::Invocations if post => &[BODY, CHECK, USE, PLACE, STATE],
            Route::InvocationCheckpoint | Route::InvocationContents => &[NAME, USE, STATE],
            Route::Invocations => &[ANSWER],
            Route::CallbackHeartbeat => &[NAME, GONE, USE, STATE],
            Route::Callback | Route::CallbackReject => &[NAME, GONE, BODY, USE, CHECK, STATE],
            Route::InvocationEvent => &[NAME, BODY, USE, CHECK, STATE],
            Route::InvocationPause
            | Route::InvocationResume
            | Route::InvocationCancel
            | Route::InvocationKill
            | Route::InvocationPurge => &[NAME, USE, STATE],
            Route::InvocationCheckpoints if post => &[NAME, BODY, USE, STATE],
            Route::InvocationFork | Route::InvocationRewind => &[NAME, BODY, CHECK, USE, STATE],
            Route::InvocationCheckpoints | Route::InvocationState | Route::InvocationTimeline => &[NAME, STATE],
            Route::Function => &[NAME, ROOM],
            Route::Functions | Route::Workflows => &[ROOM],
            Route::Page | Route::PageScript | Route::OpenApi | Route::Livez | Route::Metrics => &[],
        }
    }

    /// The status codes of all errors that a request may be answered with. One may be there several times.
    pub(crate) fn refusals(self, method: &Method) -> impl Iterator<Item = u16> {
        let sender = if self.is_open() { &[] } else { SENDER };
        let stages = self.stages(method).iter().copied();
        let gone = if self.is_of_invocation() { GONE } else { &[] };
        [HEAD, sender, gone].into_iter().chain(stages).flatten().copied()
    }
}

/// The status codes of errors, in their order, by path and method; HEAD has those of GET.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Method, Vec<u16>)> {
    let rows =
        TABLE.iter().flat_map(|(path, route, methods)| methods.iter().map(move |method| (*path, *route, method)));
    rows.filter(|(_, _, method)| **method != Method::HEAD).map(|(path, route, method)| {
        let mut codes: Vec<u16> = route.refusals(method).collect();
        codes.sort_unstable();
        codes.dedup();
        (path, method.clone(), codes)
    })
}
