/* Advice on oneself by process_madvise, with the pages in place and with them away: what is given up reads as zeros
   (Linux 6.13; before that the kernel takes no such advice). */
#include "memory.h"
#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGES = 12000, PART = 64 };

typedef ssize_t advise(int, const struct iovec *, size_t, int, unsigned);

static advise *process_advise;

static void give_up(uint64_t *part, int self) {
    struct iovec halves[] = {{part, PART / 2 * PAGE}, {part + PART / 2 * WORDS, PART / 2 * PAGE}};
    ssize_t done = process_advise(self, halves, 2, MADV_DONTNEED, 0);
    if (done < 0) {
        CHECK(errno == EINVAL || errno == ENOSYS);
        for (uint64_t page = 0; page < PART; page++) CHECK(holds(part, page, 7));
        return;
    }
    CHECK(done == PART * (ssize_t)PAGE);
    for (uint64_t page = 0; page < PART; page++) CHECK(is_zero(part, page));
}

int main(void) {
    /* Not every C library has it. */
    process_advise = (advise *)dlsym(RTLD_DEFAULT, "process_madvise");
    if (!process_advise) return 0;
    uint64_t *in_place = map_pages(PART), *away = map_pages(PART), *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PART; page++) {
        fill(away, page, 7);
        fill(in_place, page, 7);
    }
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    CHECK(self >= 0);
    for (uint64_t page = 0; page < PART; page++) CHECK(holds(in_place, page, 7));
    give_up(in_place, self);
    give_up(away, self);
    /* A bad array of ranges is an error, and too many are. */
    CHECK(process_advise(self, (void *)8, 1, MADV_DONTNEED, 0) == -1);
    CHECK(errno == EFAULT || errno == ENOSYS);
    CHECK(process_advise(self, (void *)8, 5000, MADV_DONTNEED, 0) == -1);
    CHECK(errno == EINVAL || errno == ENOSYS);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
