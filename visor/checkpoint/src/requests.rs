//! What a checkpoint says of requests of effects.

use crate::check::at_most;
use crate::error::Error;
use crate::record::{Contents, RequestsRecord};
use monohull_abi::effect::PERFORMS_TOGETHER;

/// Each is of an instance that is there, and there are no more than may be.
pub(crate) fn check(contents: &Contents) -> Result<(), Error> {
    let Some(RequestsRecord { answered, .. }) = &contents.requests else { return Ok(()) };
    at_most("replies that wait", answered.len(), PERFORMS_TOGETHER)?;
    let mut last = None;
    for request in answered {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("request {}", request.number), reason));
        if last.is_some_and(|last| last >= *request) {
            return wrong("it is there twice, or not in order");
        }
        if request.number == 0 || !contents.instances.iter().any(|instance| instance.id == request.instance) {
            return wrong("its instance is not there, or no request has this number");
        }
        last = Some(*request);
    }
    Ok(())
}
