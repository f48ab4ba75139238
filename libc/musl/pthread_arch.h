/* The thread pointer is the first word of the thread's header, whose address is at gs:[16]. */
static inline uintptr_t __get_tp()
{
	uintptr_t tp;
	__asm__ ("mov %%gs:16, %0; mov (%0), %0" : "=r" (tp));
	return tp;
}

#define MC_PC gregs[REG_RIP]
