/* Advice on oneself by process_madvise where /proc does not say that it is oneself: in a process namespace whose /proc is its
   parent's, and where there is none. */
#include "memory.h"
#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGES = 12000, PART = 64 };

typedef ssize_t advise(int, const struct iovec *, size_t, int, unsigned);

static advise *process_advise;

static uint64_t *paged(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    return memory;
}

static void check(uint64_t *memory) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
}

static void give_up(uint64_t *memory, int self) {
    struct iovec range = {memory, PART * PAGE};
    ssize_t done = process_advise(self, &range, 1, MADV_DONTNEED, 0);
    if (done < 0) {
        CHECK(errno == EINVAL || errno == ENOSYS);
    } else {
        CHECK(done == PART * (ssize_t)PAGE);
        for (uint64_t page = 0; page < PART; page++) CHECK(is_zero(memory, page));
        for (uint64_t page = 0; page < PART; page++) fill(memory, page, 1);
    }
    check(memory);
}

static void apart(void) {
    uint64_t *memory = paged();
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    CHECK(self >= 0);
    give_up(memory, self);
    char folder[] = "/tmp/warmswap-advised-XXXXXX";
    CHECK(mkdtemp(folder) && chdir(folder) == 0 && rmdir(folder) == 0 && chroot(".") == 0);
    give_up(memory, self);
    _exit(0);
}

int main(void) {
    end_if_it_hangs();
    process_advise = (advise *)dlsym(RTLD_DEFAULT, "process_madvise");
    if (!process_advise) return 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(unshare(CLONE_NEWPID) == 0);
        pid_t first = fork();
        CHECK(first >= 0);
        if (first == 0) apart();
        join_child(first);
        _exit(0);
    }
    join_child(child);
    check(paged());
    return 0;
}
