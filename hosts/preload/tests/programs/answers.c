/* What calls answer about memory that is there, is not there, or is locked, and under limits that the program sets for
   itself: printed, to be compared with a run without the library. Before the program is paged, and afterwards. */
#include "memory.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGES = 12000, PART = 64 };

static void answer(const char *call, long result) {
    printf("%s: %ld, %d\n", call, result, result == 0 ? 0 : errno);
    errno = 0;
}

static void about_holes(void) {
    unsigned char in_memory[PART];
    char *hole = (char *)map_pages(PART);
    memset(hole, 1, PART * PAGE);
    answer("mincore", mincore(hole, PART * PAGE, in_memory));
    answer("msync", msync(hole, PART * PAGE, MS_ASYNC));
    CHECK(munmap(hole + PAGE, PAGE) == 0);
    answer("mincore with a hole", mincore(hole, PART * PAGE, in_memory));
    answer("msync with a hole", msync(hole, PART * PAGE, MS_ASYNC));
    answer("mlock of a hole", mlock(hole + PAGE, PAGE));
    answer("will need with a hole", madvise(hole, PART * PAGE, MADV_WILLNEED));
    answer("sequential with a hole", madvise(hole, PART * PAGE, MADV_SEQUENTIAL));
    answer("populate a hole", madvise(hole + PAGE, PAGE, MADV_POPULATE_READ));
    answer("POSIX advice with a hole", posix_madvise(hole, PART * PAGE, POSIX_MADV_WILLNEED));
    answer("POSIX advice that there is not", posix_madvise(hole, PAGE, 77));
    answer("protect a hole", mprotect(hole + PAGE, PAGE, PROT_READ));
    answer("protect how", mprotect(hole, PAGE, 0x1000));
    answer("unmap nothing", munmap(hole, 0));
    void *odd = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 5);
    answer("map from within a page", odd == MAP_FAILED);
    CHECK(munmap(hole, PART * PAGE) == 0);
}

static void about_locks(void) {
    char *part = (char *)map_pages(PART);
    memset(part, 9, PART * PAGE);
    CHECK(mlock(part, 8 * PAGE) == 0);
    answer("give up what is locked", madvise(part, 8 * PAGE, MADV_DONTNEED));
    answer("give up later what is locked", madvise(part, 8 * PAGE, MADV_FREE));
    CHECK(part[5] == 9 && part[7 * PAGE] == 9);
    answer("give up what is not locked", madvise(part + 8 * PAGE, PAGE, MADV_DONTNEED));
    CHECK(part[8 * PAGE] == 0);
    CHECK(munlock(part, 8 * PAGE) == 0);
    answer("give up what was locked", madvise(part, 8 * PAGE, MADV_DONTNEED));
    CHECK(part[5] == 0);
    CHECK(munmap(part, PART * PAGE) == 0);
}

/* There is no such key; all stays as it is. */
static void about_keys(void) {
    char *part = (char *)map_pages(PART);
    memset(part, 3, PART * PAGE);
    answer("a key that there is not", pkey_mprotect(part, PART * PAGE, PROT_READ | PROT_WRITE, 15));
    part[5] = 4;
    CHECK(part[5] == 4 && part[PAGE] == 3);
    CHECK(munmap(part, PART * PAGE) == 0);
}

/* Two of the program's own cannot have the same faults. */
static void about_userfaultfds(void) {
    void *part = map_pages(PART);
    int uffd[2];
    for (int i = 0; i < 2; i++) {
        struct uffdio_api api = {.api = UFFD_API};
        uffd[i] = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
        if (uffd[i] < 0) return;
        CHECK(ioctl(uffd[i], UFFDIO_API, &api) == 0);
        struct uffdio_register both = {
            .range = {(uintptr_t)part, PART * PAGE},
            .mode = UFFDIO_REGISTER_MODE_MISSING,
        };
        answer("register", ioctl(uffd[i], UFFDIO_REGISTER, &both));
    }
    CHECK(close(uffd[0]) == 0 && close(uffd[1]) == 0);
    CHECK(munmap(part, PART * PAGE) == 0);
}

static void about_much(void) {
    size_t much = 1ul << 45;
    void *memory = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    answer("more than there is", memory == MAP_FAILED);
    size_t volatile bytes = much;
    answer("a block of more", malloc(bytes) == NULL);
    answer("a block of zeros of more", calloc(bytes, 1) == NULL);
    char *block = malloc(1 << 20);
    char *grown = realloc(block, bytes);
    answer("a block that grows to more", grown == NULL);
    free(grown ? grown : block);
}

/* Of addresses, and of data: what is asked for is far from what the program has. */
static void about_limits(int which) {
    size_t much = 2000ul << 20;
    int both = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    struct rlimit limit = {600ul << 20, RLIM_INFINITY}, before;
    CHECK(getrlimit(which, &before) == 0);
    char *part = (char *)map_pages(PART);
    memset(part, 6, PART * PAGE);
    CHECK(setrlimit(which, &limit) == 0);
    answer("map much", mmap(NULL, much, both, flags, -1, 0) == MAP_FAILED);
    answer("grow much", mremap(part, PART * PAGE, much, MREMAP_MAYMOVE) == MAP_FAILED);
    char *there = (char *)(66ul << 30);
    answer("map much there", mmap(there, much, both, flags | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    answer("map little there", mmap(there, 1 << 20, both, flags | MAP_FIXED_NOREPLACE, -1, 0) != there);
    answer("map over it", mmap(there, 1 << 20, both, flags | MAP_FIXED, -1, 0) != there);
    CHECK(munmap(there, 1 << 20) == 0);
    void *block = malloc(50 << 20);
    answer("allocate some", block == NULL);
    free(block);
    CHECK(setrlimit(which, &before) == 0);
    for (size_t page = 0; page < PART; page++) CHECK(part[page * PAGE] == 6);
    CHECK(munmap(part, PART * PAGE) == 0);
}

int main(void) {
    for (int is_paged = 0; is_paged < 2; is_paged++) {
        uint64_t *memory = is_paged ? map_pages(PAGES) : NULL;
        for (uint64_t page = 0; is_paged && page < PAGES; page++) fill(memory, page, 1);
        if (is_paged) wait_until_paged(memory, PAGES);
        about_holes();
        about_locks();
        about_keys();
        about_userfaultfds();
        about_much();
        about_limits(RLIMIT_AS);
        about_limits(RLIMIT_DATA);
        for (uint64_t page = 0; is_paged && page < PAGES; page++) CHECK(holds(memory, page, 1));
    }
    return 0;
}
