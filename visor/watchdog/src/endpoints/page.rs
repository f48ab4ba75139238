//! The page at `/`: what is registered, what ran lately, and where its time went.
//!
//! Two files that are part of the program; they load nothing from anywhere else. What functions print, and what failed
//! ones say, ends up on this page, so it is inserted as text, never as markup, and the headers let the browser run no script
//! but ours.

use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;

use crate::http::answer::Answer;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn html() -> Response<Answer> {
    part("text/html; charset=utf-8", include_str!("page.html"))
}

pub(crate) fn script() -> Response<Answer> {
    part("text/javascript; charset=utf-8", include_str!("page.js"))
}

fn part(content_type: &'static str, text: &'static str) -> Response<Answer> {
    let response = Response::builder()
        .header(CONTENT_TYPE, content_type)
        .header(CONTENT_SECURITY_POLICY, POLICY)
        .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(CACHE_CONTROL, "no-cache");
    response.body(Answer::Whole(text.into())).expect("the headers are constants")
}
