/* wasi-libc has no jumps. Programs that can do without them include this all the same. */
