//! The table of routes.
//!
//! The table is the interface: a path that is not in it is 404, a method that is not in its row is 405. `openapi.json`
//! describes the same rows, and a test compares the two.

use std::sync::Arc;

use hyper::Method;
use hyper::body::Incoming;
use hyper::http::Request;
use matchit::Router;

use crate::clock::Moment;
use crate::http::connection::Stream;
use crate::http::error::ApiError;

/// The resource of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    Page,
    PageScript,
    OpenApi,
    Livez,
    Readyz,
    Healthz,
    Metrics,
    Functions,
    Function,
    Workflows,
    Workflow,
    WorkflowVersions,
    WorkflowMigrate,
    Schedules,
    Schedule,
    Invoke,
    AsyncInvoke,
    Http,
    Run,
    Validate,
    Invocations,
    Invocation,
    InvocationLogs,
    InvocationOutput,
    InvocationEvent,
    InvocationState,
    Callback,
    CallbackReject,
    CallbackHeartbeat,
    InvocationPause,
    InvocationResume,
    InvocationCancel,
    InvocationKill,
    InvocationPurge,
    InvocationFork,
    InvocationRewind,
    InvocationCheckpoints,
    InvocationCheckpoint,
    InvocationContents,
    InvocationTimeline,
}

const GET: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
/// All that OpenAPI can describe, without TRACE, which tells a client what it has sent.
const ANY: &[Method] =
    &[Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
const ENTRY: &[Method] = &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
/// A list, and something that is added to it.
const LIST: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
const RECORD: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];

/// Every path, with its methods.
pub(crate) const TABLE: &[(&str, Route, &[Method])] = &[
    ("/", Route::Page, GET),
    ("/page.js", Route::PageScript, GET),
    ("/openapi.json", Route::OpenApi, GET),
    ("/livez", Route::Livez, GET),
    ("/readyz", Route::Readyz, GET),
    ("/healthz", Route::Healthz, GET),
    ("/metrics", Route::Metrics, GET),
    ("/functions", Route::Functions, GET),
    ("/functions/{name}", Route::Function, ENTRY),
    ("/workflows", Route::Workflows, GET),
    ("/workflows/{name}", Route::Workflow, ENTRY),
    ("/workflows/{name}/versions", Route::WorkflowVersions, GET),
    ("/workflows/{name}/migrate", Route::WorkflowMigrate, POST),
    ("/schedules", Route::Schedules, GET),
    ("/schedules/{name}", Route::Schedule, ENTRY),
    ("/invoke/{name}", Route::Invoke, POST),
    ("/async-invoke/{name}", Route::AsyncInvoke, POST),
    ("/http/{name}/{path}", Route::Http, ANY),
    ("/run", Route::Run, POST),
    ("/validate", Route::Validate, POST),
    ("/invocations", Route::Invocations, LIST),
    ("/invocations/{name}", Route::Invocation, RECORD),
    ("/invocations/{name}/logs", Route::InvocationLogs, GET),
    ("/invocations/{name}/outputs/{slot}", Route::InvocationOutput, GET),
    ("/invocations/{name}/events/{slot}", Route::InvocationEvent, POST),
    ("/invocations/{name}/state/{slot}", Route::InvocationState, GET),
    ("/callbacks/{name}/{slot}", Route::Callback, POST),
    ("/callbacks/{name}/{slot}/reject", Route::CallbackReject, POST),
    ("/callbacks/{name}/{slot}/heartbeat", Route::CallbackHeartbeat, POST),
    ("/invocations/{name}/pause", Route::InvocationPause, POST),
    ("/invocations/{name}/resume", Route::InvocationResume, POST),
    ("/invocations/{name}/cancel", Route::InvocationCancel, POST),
    ("/invocations/{name}/kill", Route::InvocationKill, POST),
    ("/invocations/{name}/purge", Route::InvocationPurge, POST),
    ("/invocations/{name}/fork", Route::InvocationFork, POST),
    ("/invocations/{name}/rewind", Route::InvocationRewind, POST),
    ("/invocations/{name}/checkpoints", Route::InvocationCheckpoints, LIST),
    ("/invocations/{name}/checkpoints/{slot}", Route::InvocationContents, GET),
    ("/invocations/{name}/checkpoint", Route::InvocationCheckpoint, GET),
    ("/invocations/{name}/timeline", Route::InvocationTimeline, GET),
];

impl Route {
    /// The path as the table has it, for metrics.
    pub(crate) fn pattern(self) -> &'static str {
        TABLE.iter().find(|(_, route, _)| *route == self).map_or("", |(pattern, ..)| pattern)
    }

    /// Whether it is answered whatever other clients have not taken: what it answers with is a part of the program, or tells how the server is.
    pub(crate) fn is_always_answered(self) -> bool {
        let is_constant = matches!(self, Route::Page | Route::PageScript | Route::OpenApi);
        is_constant || matches!(self, Route::Livez | Route::Readyz | Route::Healthz | Route::Metrics)
    }

    /// Whether the path names an invocation.
    pub(crate) fn is_of_invocation(self) -> bool {
        self.pattern().starts_with("/invocations/{name}")
    }

    /// Whether the route needs no token: health checks, the page's own text, and callbacks, whose address is a secret.
    pub(crate) fn is_open(self) -> bool {
        matches!(
            self,
            Route::Page
                | Route::PageScript
                | Route::Livez
                | Route::Readyz
                | Route::Healthz
                | Route::Callback
                | Route::CallbackReject
                | Route::CallbackHeartbeat
        )
    }
}

/// Finds routes.
pub(crate) struct Routes(Router<(Route, &'static [Method])>);

/// A request and its route.
pub(crate) struct Call {
    pub(crate) accepted: Moment,
    pub(crate) route: Route,
    /// The `{name}` of the path.
    pub(crate) name: String,
    /// The `{slot}` of the path.
    pub(crate) slot: String,
    pub(crate) request: Request<Incoming>,
    /// Where it came from.
    pub(crate) stream: Arc<Stream>,
}

impl Call {
    /// The value of a parameter behind the `?`. Parameters we do not know are an error, as a slip of the keyboard would
    /// otherwise go unnoticed, and so is one that is given twice.
    pub(crate) fn parameters<const N: usize>(&self, known: [&'static str; N]) -> Result<[Option<String>; N], ApiError> {
        let mut values = [const { None }; N];
        for pair in self.request.uri().query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let index = known.iter().position(|known| *known == name);
            let index = index.ok_or_else(|| {
                ApiError::bad_request(format!("no parameter is called {}", monohull_report::text::quoted(name)))
            })?;
            if values[index].is_some() {
                return Err(ApiError::bad_request(format!("the parameter `{name}` is given twice")));
            }
            values[index] = Some(decoded(&value.replace('+', " "))?);
        }
        Ok(values)
    }
}

impl Routes {
    pub(crate) fn new() -> Routes {
        let mut router = Router::new();
        for (pattern, route, methods) in TABLE {
            for pattern in patterns(pattern) {
                router.insert(pattern, (*route, *methods)).expect("the table's paths do not contradict each other");
            }
        }
        Routes(router)
    }

    /// The route of a request, and what its path names.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<(Route, String, String), ApiError> {
        let Ok(found) = self.0.at(path) else {
            return Err(ApiError::not_found("nothing is at this path; /openapi.json lists all paths"));
        };
        let (route, methods) = *found.value;
        if !methods.contains(method) {
            let allowed: Vec<&str> = methods.iter().map(Method::as_str).collect();
            return Err(ApiError::method_not_allowed(allowed.join(", ")));
        }
        let part = |name| decoded(found.params.get(name).unwrap_or_default());
        Ok((route, part("name")?, part("slot")?))
    }
}

/// The paths that a path of the table stands for: at its end, `{path}` is any number of parts, and none.
fn patterns(pattern: &str) -> Vec<String> {
    match pattern.strip_suffix("/{path}") {
        None => vec![pattern.to_owned()],
        Some(before) => ["", "/", "/{*path}"].map(|path| format!("{before}{path}")).into(),
    }
}

fn decoded(text: &str) -> Result<String, ApiError> {
    let bytes = percent_encoding::percent_decode_str(text);
    let text = bytes.decode_utf8().map_err(|_| ApiError::bad_request("the path or a parameter is not UTF-8"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;

    fn find(method: Method, path: &str) -> Result<(Route, String, String), StatusCode> {
        Routes::new().find(&method, path).map_err(|refusal| refusal.status)
    }

    #[test]
    fn paths_follow_the_table() {
        let (route, name, _) = find(Method::PUT, "/functions/f").expect("a route");
        assert_eq!((route, name.as_str()), (Route::Function, "f"));
        let (route, name, slot) = find(Method::GET, "/invocations/17/outputs/part%2E3").expect("a route");
        assert_eq!((route, name.as_str(), slot.as_str()), (Route::InvocationOutput, "17", "part.3"));
        assert_eq!(find(Method::POST, "/functions/f"), Err(StatusCode::METHOD_NOT_ALLOWED));
        for path in ["/functions/", "/functions/a/b", "/functions/../x", "//", "/x", "", "/invoke", "/FUNCTIONS"] {
            assert_eq!(find(Method::GET, path), Err(StatusCode::NOT_FOUND), "{path:?}");
        }
        assert_eq!(find(Method::GET, "/functions/%ff"), Err(StatusCode::BAD_REQUEST));
        for path in ["/http/w", "/http/w/", "/http/w//", "/http/w/a/../b%2F", "/http/w/%ff"] {
            let (route, name, _) = find(Method::PATCH, path).expect("a route");
            assert_eq!((route, name.as_str()), (Route::Http, "w"), "{path}");
        }
        assert_eq!(find(Method::TRACE, "/http/w/"), Err(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(find(Method::GET, "/http"), Err(StatusCode::NOT_FOUND));
        assert_eq!(find(Method::GET, "/http/"), Err(StatusCode::NOT_FOUND));
        // Decoded only after the path has been split: this is one name, and no function can be called so.
        let (_, name, _) = find(Method::GET, "/functions/..%2F..%2Fx").expect("a route");
        assert_eq!(name, "../../x");
    }
}
