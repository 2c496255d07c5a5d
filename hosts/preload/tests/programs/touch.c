/* Eight threads write and check pages in random order, each its own, while a timer interrupts them with a
   handler that uses paged memory, too. */
#include "memory.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { THREADS = 8, PAGES = 2048, COUNTERS = 256, TURNS = 6000, MOST_ROUNDS = 200 };

static uint64_t *memory, *counters;
/* How often it does its turns once it is down to an eighth of its memory, which is what the budgets of the tests leave
   beside their pools: once, or as often as REPEATS says. */
static int repeats = 1;
static atomic_ulong interrupts;

static void on_timer(int signal) {
    (void)signal;
    unsigned long turn = atomic_fetch_add(&interrupts, 1);
    /* Some page of the counters, most of them not in place. */
    counters[(turn * 37 % COUNTERS) * WORDS]++;
}

static void *work(void *argument) {
    uint64_t thread = (uintptr_t)argument, state = thread + 1;
    uint32_t *versions = calloc(PAGES, sizeof *versions);
    uint64_t *own = memory + thread * PAGES * WORDS;
    for (int round = 0, rounds = repeats; round < rounds && round < MOST_ROUNDS; round++) {
        if (!is_down_to(memory, THREADS * PAGES, THREADS * PAGES / 8)) rounds = round + 1 + repeats;
        for (int turn = 0; turn < TURNS; turn++) {
            uint64_t page = next_random(&state) % PAGES;
            if (versions[page])
                CHECK(holds(own, page, versions[page]));
            else
                CHECK(is_zero(own, page));
            if (turn % 3 == 0) fill(own, page, ++versions[page]);
        }
    }
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(versions[page] ? holds(own, page, versions[page]) : is_zero(own, page));
    free(versions);
    return NULL;
}

int main(void) {
    const char *asked = getenv("REPEATS");
    if (asked) repeats = atoi(asked);
    memory = map_pages(THREADS * PAGES);
    counters = map_pages(COUNTERS);
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    uint64_t counted = 0;
    for (int page = 0; page < COUNTERS; page++) counted += counters[page * WORDS];
    CHECK(counted == atomic_load(&interrupts));
    return 0;
}
