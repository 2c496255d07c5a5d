/* Memory that mremap moves while other threads use it: no addition to a counter is lost when the counters are taken away
   (MREMAP_DONTUNMAP), and a table that is replaced by another one never reads as zeros. Both before and after the program
   is paged. Then, with all of its content away, memory that moves and grows keeps it. */
#include "memory.h"
#include <pthread.h>

enum { PAGES = 12000, PART = 256, THREADS = 2, ROUNDS = 60, GROWS = 3000 };

static uint64_t *counters;
static volatile uint64_t *table;
static atomic_int over;
static atomic_ulong added, empty;

static void *add(void *number) {
    uint64_t state = (uintptr_t)number + 1, count = 0;
    while (!atomic_load(&over)) {
        size_t page = next_random(&state) % PART;
        atomic_fetch_add((_Atomic uint64_t *)counters + page * WORDS, 1);
        count++;
    }
    atomic_fetch_add(&added, count);
    return NULL;
}

static void *look(void *number) {
    uint64_t state = (uintptr_t)number + 5;
    while (!atomic_load(&over))
        if (table[next_random(&state) % PART * WORDS] == 0) atomic_fetch_add(&empty, 1);
    return NULL;
}

static void with_threads(void *(*work)(void *), void (*meanwhile)(void)) {
    pthread_t threads[THREADS];
    atomic_store(&over, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int round = 0; round < ROUNDS; round++) meanwhile();
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static uint64_t *taken;
static uint64_t sum;
static int can_take = 1;

static void take_counters(void) {
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    if (!can_take || mremap(counters, PART * PAGE, PART * PAGE, flags, taken) != taken) {
        CHECK(!can_take || errno == EFAULT);
        can_take = 0;
        return;
    }
    for (int page = 0; page < PART; page++) sum += taken[page * WORDS];
}

static void replace_table(void) {
    static uint64_t version = 1;
    uint64_t *next = map_pages(PART);
    version++;
    for (int page = 0; page < PART; page++) next[page * WORDS] = version;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    CHECK(mremap(next, PART * PAGE, PART * PAGE, flags, (void *)table) == table);
    for (int page = 0; page < PART; page++) CHECK(table[page * WORDS] == version);
}

static void move_under_use(void) {
    counters = map_pages(PART);
    taken = map_pages(PART);
    sum = 0;
    atomic_store(&added, 0);
    with_threads(add, take_counters);
    for (int page = 0; page < PART; page++) sum += counters[page * WORDS];
    CHECK(sum == added);
    /* Where frames cannot be moved, a table that is replaced is empty for a moment. */
    if (!can_take) return;
    table = map_pages(PART);
    for (int page = 0; page < PART; page++) table[page * WORDS] = 1;
    with_threads(look, replace_table);
    CHECK(empty == 0);
}

/* Only where frames are copied, content that others use cannot be taken away. */
static int is_copied(void) {
    const char *run = getenv("WARMSWAP_RUN");
    return run && strstr(run, "\"copy\"");
}

int main(void) {
    move_under_use();
    CHECK(can_take);
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    move_under_use();
    CHECK(can_take || is_copied());
    /* Something stands behind it, so that it has to move. */
    uint64_t *behind = mmap(memory + PAGES * WORDS, PAGE, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(behind != MAP_FAILED || errno == EEXIST);
    uint64_t *moved =
        mremap(memory, PAGES * PAGE, (PAGES + GROWS) * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(moved, page, 1));
    for (uint64_t page = PAGES; page < PAGES + GROWS; page++) CHECK(is_zero(moved, page));
    /* In place of memory with other protections, some of it behind the first steps. */
    uint64_t *other = map_pages(PAGES);
    CHECK(mprotect(other + 500 * WORDS, PAGE, PROT_READ) == 0);
    CHECK(mprotect(other + 900 * WORDS, 3 * PAGE, PROT_NONE) == 0);
    CHECK(mremap(moved, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
    moved = other;
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(moved, page, 1));
    /* A child has it, too. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t *again = mremap(moved, PAGES * PAGE, PAGES * PAGE,
                                 MREMAP_MAYMOVE | MREMAP_FIXED, map_pages(PAGES));
        CHECK(again != MAP_FAILED);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(again, page, 1));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(moved, page, 1));
    return 0;
}
