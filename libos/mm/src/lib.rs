//! Libos module: Memory: heap growth, slot buffers, statistics.
