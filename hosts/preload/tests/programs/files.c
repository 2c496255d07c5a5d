/* A file that is mapped to be read, larger than the budget: touched by threads in random order, given to system calls,
   discarded, written to in parts, unmapped in parts, mapped over, moved, and read in children. */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/stat.h>

enum { PAGES = 8000, THREADS = 4, READ_WRITE = PROT_READ | PROT_WRITE };

static int file;
static atomic_int is_over;
static _Thread_local sigjmp_buf landing;
static _Thread_local siginfo_t fault;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    fault = *info;
    siglongjmp(landing, 1);
}

/* The signal that an access raises, or 0. */
static int signal_of(const uint64_t *memory, uint64_t page, int writes) {
    volatile uint64_t *word = (uint64_t *)memory + page * WORDS;
    if (sigsetjmp(landing, 1)) {
        CHECK((char *)fault.si_addr - (char *)word < (long)PAGE);
        return fault.si_signo;
    }
    if (writes)
        *word = 1;
    else
        (void)*word;
    return 0;
}

/* An unnamed file of so many pages of that version. */
static int new_file(uint64_t pages, uint64_t version) {
    char path[] = "/tmp/warmswap-files-XXXXXX";
    int made = mkstemp(path);
    CHECK(made >= 0 && unlink(path) == 0);
    static uint64_t page[WORDS];
    for (uint64_t i = 0; i < pages; i++) {
        for (size_t word = 0; word < WORDS; word++) page[word] = word_of(i, version, word);
        CHECK(write(made, page, PAGE) == (ssize_t)PAGE);
    }
    return made;
}

static const uint64_t *map_file(int from, uint64_t first, uint64_t pages) {
    void *memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_PRIVATE, from, first * PAGE);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Whether a page is what read(2) gives. */
static int is_read(const uint64_t *memory, uint64_t page) {
    uint64_t bytes[WORDS];
    CHECK(pread(file, bytes, PAGE, page * PAGE) == (ssize_t)PAGE);
    return memcmp(memory + page * WORDS, bytes, PAGE) == 0;
}

static void check_all(const uint64_t *memory) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
}

static void *touches(void *argument) {
    const uint64_t *memory = argument;
    uint64_t state = 3 + (uintptr_t)pthread_self();
    for (int turn = 0; turn < 3000; turn++) CHECK(is_read(memory, next_random(&state) % PAGES));
    return NULL;
}

/* Looks until it is told to stop. */
static void *looks(void *argument) {
    const uint64_t *memory = argument;
    uint64_t state = 9;
    while (!atomic_load(&is_over)) CHECK(holds(memory, next_random(&state) % PAGES, 1));
    return NULL;
}

static void touch(const uint64_t *memory) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, touches, (void *)memory) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(is_read(memory, page));
}

static void system_calls(const uint64_t *memory) {
    int copy = new_file(0, 0);
    CHECK(write(copy, memory, PAGES * PAGE) == (ssize_t)(PAGES * PAGE));
    const uint64_t *back = map_file(copy, 0, PAGES);
    check_all(back);
    CHECK(munmap((void *)back, PAGES * PAGE) == 0 && close(copy) == 0);
    /* No system call may write there. */
    CHECK(pread(file, (void *)memory, PAGE, 0) == -1 && errno == EFAULT);
    CHECK(holds(memory, 0, 1));
}

static void advise(const uint64_t *memory) {
    char *start = (char *)memory;
    int all[] = {MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_NORMAL, MADV_DONTNEED, MADV_COLD};
    pthread_t thread;
    atomic_store(&is_over, 0);
    CHECK(pthread_create(&thread, NULL, looks, start) == 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(madvise(start, PAGES * PAGE, all[i]) == 0);
        check_all(memory);
    }
    for (uint64_t page = 0; page < PAGES; page += 50) {
        CHECK(madvise(start + page * PAGE, 20 * PAGE, MADV_DONTNEED) == 0);
        CHECK(holds(memory, page, 1) && holds(memory, page + 19, 1));
    }
    CHECK(mlock(start + 100 * PAGE, 200 * PAGE) == 0);
    check_all(memory);
    CHECK(munlock(start + 100 * PAGE, 200 * PAGE) == 0);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void illegal_writes(const uint64_t *memory) {
    for (uint64_t page = 0; page < PAGES; page += 111) {
        CHECK(signal_of(memory, page, 1) == SIGSEGV && fault.si_code == SEGV_ACCERR);
        CHECK(holds(memory, page, 1));
    }
}

/* A part is written to by this process alone, while another thread looks at all of it. */
static void protect(void) {
    const uint64_t *memory = map_file(file, 0, PAGES);
    pthread_t thread;
    atomic_store(&is_over, 0);
    CHECK(pthread_create(&thread, NULL, looks, (void *)memory) == 0);
    for (uint64_t page = 0; page + 700 < PAGES; page += 1000)
        CHECK(mprotect((void *)(memory + page * WORDS), 700 * PAGE, READ_WRITE) == 0);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    uint64_t *own = (uint64_t *)memory;
    for (uint64_t page = 0; page < 700; page += 3) fill(own, page, 2);
    CHECK(mprotect(own, 1500 * PAGE, PROT_NONE) == 0);
    CHECK(signal_of(own, 0, 0) == SIGSEGV && signal_of(own, 1200, 0) == SIGSEGV);
    CHECK(mprotect(own, 1500 * PAGE, PROT_READ) == 0);
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(holds(own, page, page < 700 && page % 3 == 0 ? 2 : 1) && (page > 700 || page % 3 || !is_read(own, page)));
    CHECK(signal_of(own, 0, 1) == SIGSEGV && signal_of(own, PAGES - 1, 1) == SIGSEGV);
    CHECK(munmap(own, PAGES * PAGE) == 0);
    CHECK(signal_of(own, 0, 0) == SIGSEGV);
}

static void unmap_parts(void) {
    const uint64_t *memory = map_file(file, 0, PAGES);
    for (uint64_t page = 0; page < PAGES; page += 7) CHECK(holds(memory, page, 1));
    CHECK(munmap((void *)(memory + 10 * WORDS), 3000 * PAGE) == 0);
    CHECK(signal_of(memory, 10, 0) == SIGSEGV && signal_of(memory, 3009, 0) == SIGSEGV);
    /* What is mapped next may be where a part of the file was. */
    uint64_t *own = map_pages(2000);
    const uint64_t *again = map_file(file, 5000, 1000);
    for (uint64_t page = 0; page < 2000; page++) fill(own, page, 3);
    for (uint64_t page = 0; page < PAGES; page++)
        if (page < 10 || page >= 3010) CHECK(holds(memory, page, 1));
    for (uint64_t page = 0; page < 2000; page++) CHECK(holds(own, page, 3));
    for (uint64_t page = 0; page < 1000; page++) CHECK(is_read(again - 5000 * WORDS, page + 5000));
    CHECK(munmap((void *)memory, PAGES * PAGE) == 0 && signal_of(memory, PAGES - 1, 0) == SIGSEGV);
    for (uint64_t page = 0; page < 2000; page++)
        if (own + page * WORDS < memory || own + page * WORDS >= memory + PAGES * WORDS)
            CHECK(holds(own, page, 3));
    CHECK(munmap((void *)again, 1000 * PAGE) == 0 && munmap(own, 2000 * PAGE) == 0);
}

static void map_over(void) {
    const uint64_t *memory = map_file(file, 0, PAGES);
    for (uint64_t page = 0; page < PAGES; page += 5) CHECK(holds(memory, page, 1));
    uint64_t *own = (uint64_t *)(memory + 1000 * WORDS);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(own, 1000 * PAGE, READ_WRITE, flags, -1, 0) == own);
    for (uint64_t page = 0; page < 1000; page++) CHECK(is_zero(own, page));
    for (uint64_t page = 0; page < 1000; page++) fill(own, page, 4);
    int other = new_file(1000, 5);
    uint64_t *mapped = (uint64_t *)(memory + 4000 * WORDS);
    CHECK(mmap(mapped, 1000 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, other, 0) == mapped);
    for (uint64_t page = 0; page < 1000; page++) CHECK(holds(mapped, page, 5) && holds(own, page, 4));
    for (uint64_t page = 0; page < PAGES; page++)
        if (page < 1000 || (page >= 2000 && page < 4000) || page >= 5000) CHECK(holds(memory, page, 1));
    CHECK(munmap((void *)memory, PAGES * PAGE) == 0 && close(other) == 0);
}

static void remap(void) {
    const uint64_t *memory = map_file(file, 0, PAGES / 2);
    for (uint64_t page = 0; page < PAGES / 2; page += 3) CHECK(holds(memory, page, 1));
    char *start = (char *)memory;
    CHECK(mremap(start, PAGES / 2 * PAGE, PAGES * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
    for (uint64_t page = 0; page < PAGES / 2; page += 2) CHECK(holds(memory, page, 1));
    uint64_t *moved = mremap(start, PAGES / 2 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    check_all(moved);
    CHECK(munmap(moved, PAGES * PAGE) == 0);
    memory = map_file(file, 0, PAGES);
    CHECK(mremap((void *)memory, PAGES * PAGE, 500 * PAGE, 0) == memory);
    CHECK(signal_of(memory, 500, 0) == SIGSEGV && holds(memory, 499, 1));
    uint64_t *place = map_pages(500);
    for (uint64_t page = 0; page < 500; page++) fill(place, page, 6);
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    CHECK(mremap((void *)memory, 500 * PAGE, 500 * PAGE, flags, place) == place);
    for (uint64_t page = 0; page < 500; page++) CHECK(holds(place, page, 1));
    CHECK(signal_of(memory, 0, 0) == SIGSEGV && munmap(place, 500 * PAGE) == 0);
}

/* Behind the end of a file there is nothing, when it is mapped and when it becomes shorter. */
static void end_of_file(void) {
    const uint64_t have = 100, want = 200;
    int small = new_file(have, 7);
    CHECK(ftruncate(small, have * PAGE - 1000) == 0);
    const uint64_t *memory = map_file(small, 0, want);
    for (uint64_t page = 0; page + 1 < have; page += 3) CHECK(holds(memory, page, 7));
    const char *last = (const char *)(memory + (have - 1) * WORDS);
    CHECK(last[0] != 0 || last[8] != 0);
    for (uint64_t i = PAGE - 1000; i < PAGE; i++) CHECK(last[i] == 0);
    for (uint64_t page = have; page < want; page += 9) CHECK(signal_of(memory, page, 0) == SIGBUS);
    /* It becomes longer again, and shorter. */
    CHECK(ftruncate(small, want * PAGE) == 0 && is_zero(memory, want - 1));
    CHECK(ftruncate(small, 50 * PAGE) == 0);
    CHECK(madvise((void *)memory, have * PAGE, MADV_DONTNEED) == 0);
    for (uint64_t page = 0; page < 50; page++) CHECK(holds(memory, page, 7));
    for (uint64_t page = 50; page < want; page += 9) CHECK(signal_of(memory, page, 0) == SIGBUS);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], memory + 90 * WORDS, PAGE) == -1 && errno == EFAULT);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (uint64_t page = 0; page < 50; page++) CHECK(holds(memory, page, 7));
        for (uint64_t page = 50; page < want; page += 7) CHECK(signal_of(memory, page, 0) == SIGBUS);
        _exit(0);
    }
    join_child(child);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(small) == 0);
    CHECK(munmap((void *)memory, want * PAGE) == 0);
}

static void forks(const uint64_t *memory) {
    pthread_t thread;
    atomic_store(&is_over, 0);
    CHECK(pthread_create(&thread, NULL, looks, (void *)memory) == 0);
    for (int turn = 0; turn < 3; turn++) {
        CHECK(madvise((void *)memory, PAGES / 2 * PAGE, MADV_DONTNEED) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            check_all(memory);
            pid_t grandchild = turn == 0 ? fork() : -1;
            if (grandchild == 0) {
                CHECK(mprotect((void *)memory, 100 * PAGE, READ_WRITE) == 0);
                fill((uint64_t *)memory, 50, 8);
                CHECK(holds(memory, 50, 8) && holds(memory, 51, 1) && holds(memory, PAGES - 1, 1));
                _exit(0);
            }
            if (grandchild > 0) join_child(grandchild);
            check_all(memory);
            CHECK(munmap((void *)memory, PAGES * PAGE) == 0 && signal_of(memory, 3, 0) == SIGSEGV);
            _exit(0);
        }
        check_all(memory);
        join_child(child);
    }
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* What is mapped again and again does not use anything up. */
static void churn(void) {
    for (uint64_t turn = 0; turn < 200; turn++) {
        uint64_t first = turn * 31 % (PAGES - 500);
        const uint64_t *memory = map_file(file, first, 500);
        for (uint64_t page = turn % 50; page < 500; page += 50)
            CHECK(holds(memory - first * WORDS, page + first, 1));
        if (turn % 3 == 0) CHECK(mprotect((void *)(memory + 100 * WORDS), 10 * PAGE, READ_WRITE) == 0);
        CHECK(munmap((void *)memory, 500 * PAGE) == 0);
    }
}

int main(void) {
    end_if_it_hangs();
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    file = new_file(PAGES, 1);
    const uint64_t *memory = map_file(file, 0, PAGES);
    touch(memory);
    system_calls(memory);
    advise(memory);
    illegal_writes(memory);
    protect();
    unmap_parts();
    map_over();
    remap();
    end_of_file();
    churn();
    forks(memory);
    /* Maps outlive descriptors. */
    for (int descriptor = 3; descriptor < 100; descriptor++) close(descriptor);
    check_all(memory);
    CHECK(munmap((void *)memory, PAGES * PAGE) == 0);
    return 0;
}
