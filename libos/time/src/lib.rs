//! Libos module: Clocks and sleep.
