/* mremap that grows, moves and shrinks; munmap of parts; mprotect; MADV_DONTNEED while pages leave; mappings of
   other kinds on top of paged memory. */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

enum { PAGES = 8000, READ_WRITE = PROT_READ | PROT_WRITE };

static sigjmp_buf landing;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(landing, 1);
}

static int faults(volatile uint64_t *address, int writes) {
    if (sigsetjmp(landing, 1)) return 1;
    if (writes)
        *address = 1;
    else
        (void)*address;
    return 0;
}

static uint64_t *filled(size_t pages) {
    uint64_t *memory = map_pages(pages);
    for (uint64_t page = 0; page < pages; page++) fill(memory, page, 0);
    return memory;
}

static void remap(void) {
    uint64_t *memory = filled(PAGES);
    wait_until_paged(memory, PAGES);
    uint64_t *wall = mmap((char *)memory + PAGES * PAGE, PAGE, READ_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(wall != MAP_FAILED);
    CHECK(mremap(memory, PAGES * PAGE, 2 * PAGES * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
    memory = mremap(memory, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 0));
    CHECK(is_zero(memory, PAGES) && is_zero(memory, 2 * PAGES - 1));
    CHECK(mremap(memory, 2 * PAGES * PAGE, 100 * PAGE, 0) == memory);
    CHECK(faults(memory + 100 * WORDS, 0));
    CHECK(mremap(memory, 100 * PAGE, 200 * PAGE, 0) == memory);
    CHECK(holds(memory, 99, 0) && is_zero(memory, 100));
    CHECK(munmap(memory, 200 * PAGE) == 0 && munmap(wall, PAGE) == 0);
}

static void unmap_parts(void) {
    uint64_t *memory = filled(PAGES);
    for (uint64_t page = 10; page < PAGES; page += 100)
        CHECK(munmap(memory + page * WORDS, 3 * PAGE) == 0);
    for (uint64_t page = 0; page < PAGES; page++) {
        int is_gone = page >= 10 && (page - 10) % 100 < 3;
        CHECK(is_gone ? faults(memory + page * WORDS, 0) : holds(memory, page, 0));
    }
    CHECK(munmap(memory, PAGES * PAGE) == 0);
    CHECK(faults(memory, 0));
}

static void protect(void) {
    uint64_t *memory = filled(PAGES);
    CHECK(mprotect(memory, 1000 * PAGE, PROT_READ) == 0);
    CHECK(mprotect(memory + 1000 * WORDS, 1000 * PAGE, PROT_NONE) == 0);
    for (uint64_t page = 0; page < PAGES; page++)
        if (page < 1000 || page >= 2000) CHECK(holds(memory, page, 0));
    CHECK(faults(memory + 5 * WORDS, 1) && faults(memory + 1500 * WORDS, 0));
    CHECK(mprotect(memory, 2000 * PAGE, READ_WRITE) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 0));
    fill(memory, 5, 1);
    CHECK(holds(memory, 5, 1));
    CHECK(munmap(memory, PAGES * PAGE) == 0);
}

static uint64_t *shared;
static atomic_int is_over;

static void *discards(void *argument) {
    (void)argument;
    uint64_t state = 3;
    while (!atomic_load(&is_over)) {
        uint64_t page = next_random(&state) % (PAGES / 2) * 2;
        CHECK(madvise(shared + page * WORDS, PAGE, MADV_DONTNEED) == 0);
    }
    return NULL;
}

/* Pages with even numbers are discarded all the time, those with odd numbers keep their content. */
static void discard(void) {
    shared = filled(PAGES);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, discards, NULL) == 0);
    uint64_t state = 5;
    for (int turn = 0; turn < 20000; turn++) {
        uint64_t page = next_random(&state) % PAGES;
        if (page % 2) CHECK(holds(shared, page, 0));
        else {
            uint64_t first = shared[page * WORDS + 1];
            CHECK(first == 0 || first == word_of(page, 0, 1));
        }
    }
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(madvise(shared, PAGES * PAGE, MADV_DONTNEED) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(is_zero(shared, page));
    CHECK(munmap(shared, PAGES * PAGE) == 0);
}

/* As runtimes do: a large reservation, parts of it committed, and a file on top. */
static void reserve(char *own_file) {
    char *space = mmap(NULL, 1ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(space != MAP_FAILED);
    CHECK(faults((uint64_t *)space, 0));
    uint64_t *low = mmap(space, PAGES * PAGE, READ_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK((char *)low == space);
    uint64_t *high = (uint64_t *)(space + (1ul << 29));
    CHECK(mprotect(high, PAGES * PAGE, READ_WRITE) == 0);
    for (uint64_t page = 0; page < PAGES; page++) fill(low, page, 1), fill(high, page, 2);
    int file = open(own_file, O_RDONLY);
    CHECK(file >= 0);
    char *mapped = mmap(space + 100 * PAGE, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    CHECK(mapped == space + 100 * PAGE && memcmp(mapped, "\177ELF", 4) == 0);
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(holds(high, page, 2));
        if (page < 100 || page >= 104) CHECK(holds(low, page, 1));
    }
    CHECK(mmap(low, PAGE * PAGES / 2, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == low);
    for (uint64_t page = 0; page < PAGES / 2; page++) CHECK(is_zero(low, page));
    CHECK(holds(low, PAGES / 2, 1));
    CHECK(munmap(space, 1ul << 30) == 0 && close(file) == 0);
    CHECK(faults(low, 0) && faults(high, 0));
}

int main(int count, char **arguments) {
    (void)count;
    struct sigaction action = {.sa_handler = on_fault};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    remap();
    unmap_parts();
    protect();
    discard();
    reserve(arguments[0]);
    return 0;
}
