//! What every libos module links: allocator, lock, panic handler, the table macro.
