//! Libos module: Standard output and error as whole tagged lines.
