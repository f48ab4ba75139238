//! The interface as a document that programs read.

use hyper::header::CONTENT_TYPE;
use hyper::http::Response;

use crate::http::answer::Answer;

/// Written by hand, like the routes; a test holds the two together, and answers against the schemas in it.
pub const DOCUMENT: &str = include_str!("openapi.json");

pub(crate) fn document() -> Response<Answer> {
    let response = Response::builder().header(CONTENT_TYPE, "application/json");
    response.body(Answer::Whole(DOCUMENT.into())).expect("the header is a constant")
}

/// The status codes of the errors that the server may answer with, in their order, by path and method.
pub fn errors() -> impl Iterator<Item = (&'static str, hyper::Method, Vec<u16>)> {
    crate::http::status_codes::all()
}
