/* What marks a program or library of Go's, and how Go gives memory up. */
#ifndef GO_H
#define GO_H

#include <sys/syscall.h>

#define GO_MARK                                      \
    ".section .note.go.buildid, \"a\", %note\n"      \
    ".balign 4\n.long 4, 4, 4\n"                     \
    ".ascii \"Go\\0\\0\"\n.ascii \"abc\\0\"\n"

/* Past every function of the C library's. */
static inline long raw_madvise(void *memory, size_t bytes, long advice) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_madvise), "D"(memory), "S"(bytes), "d"(advice)
                     : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_madvise, memory, bytes, advice);
#endif
}

static inline void discard_by_itself(uint64_t *memory, uint64_t pages) {
    CHECK(raw_madvise(memory, pages * PAGE, MADV_DONTNEED) == 0);
    for (uint64_t page = 0; page < pages; page++) CHECK(is_zero(memory, page));
    for (uint64_t page = 0; page < pages; page++) fill(memory, page, 2);
    for (uint64_t page = 0; page < pages; page++) CHECK(holds(memory, page, 2));
}

#endif
