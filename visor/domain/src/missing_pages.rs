//! Pages of cells that are filled when they are touched, for those who take them away, or need them, before that.
//!
//! ```text
//!   dropped      what is missing of it is zero from then on
//!   moved        is filled first: in its new place nothing fills it
//! ```

use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// Pages that are filled when they are touched.
pub(crate) trait MissingPages: Send + Sync + Debug {
    /// What is missing of a range is to be zero.
    fn forget(&self, range: &Range<u64>);

    /// Fills what is missing of a range.
    fn fill(&self, range: &Range<u64>) -> io::Result<()>;
}
