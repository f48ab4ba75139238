//! Checkpoints inside of an instance: its memory as it was at a `CAPTURE`, to which a `REWIND` goes back, as often as it likes.
//!
//! ```text
//!                       CAPTURE 1              CAPTURE 2             now
//!   cell      pages ───────┬──────────────────────┬───────────────────▶     private mapping of the copy: a page that is
//!                          │ all pages            │ changed pages           written becomes the cell's own
//!                          ▼                      ▼
//!   copy (memory file)    [1] ─────────────────▶ [2]                        memory as it was at the last capture
//!                                                 │ what they were before
//!   changes                                       ▼
//!                                               2 → 1                       leads from the copy back to an earlier capture
//! ```
//!
//! The cell's data, heap and mapped memory become a private mapping of the copy at a capture. To go back to the last one, the pages that the
//! cell has of its own are dropped (`MADV_DONTNEED`), and the copy shows again. What that costs depends on the pages that were
//! touched. To go back further, the changes that lie between are written to the copy first.
//!
//! The live part of the main stack and the slot buffers are copied as bytes: the first is short, and what is behind a slot buffer may get
//! another owner at any time.
//!
//! **Stack order.** A rewind frees the checkpoints that were captured later: the memory that names them is gone.
//!
//! **Memory.** The copy has the addresses of the cell. It is as large as what it has ever held, and stays until the instance ends. It is charged to the instance, as are
//! changes, stacks and buffers of each checkpoint. It is never mapped into another cell, and a cell that is wiped has anonymous memory
//! again.
//!
//! ```text
//!   copy     the memory file
//!   changes  pages that lead from the copy back
//!   points   the checkpoints of one cell, in their order
//!   numbers  which descriptors, sockets and queues have been opened and closed since
//! ```

mod changes;
mod copy;
mod numbers;
mod points;

pub(crate) use numbers::{Kind, Number};
pub(crate) use points::{PointError, Points, Record};
