/* Where a program's archive will be: a segment of its own, by `--section-start`. The first 8 bytes are the archive's length. */
__attribute__((section(".monohull.program"), used, aligned(4096))) const unsigned char monohull_program[8] = {0};
