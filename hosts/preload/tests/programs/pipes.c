/* Pages that a pipe refers to (vmsplice; MSG_ZEROCOPY does the same): who reads the pipe sees what was in them, also when
   their frames were needed for other pages meanwhile. */
#include "memory.h"
#include <pthread.h>
#include <sys/uio.h>

enum { PAGES = 12000, SPLICED = 16, ROUNDS = 40, THREADS = 3 };

static uint64_t *memory;
static atomic_int is_over;

static void *press(void *seed) {
    uint64_t state = (uintptr_t)seed;
    while (!atomic_load(&is_over)) {
        uint64_t page = next_random(&state) % (PAGES - SPLICED) + SPLICED;
        atomic_fetch_add((_Atomic uint64_t *)memory + page * WORDS, 1);
    }
    return NULL;
}

static void read_page(int from, void *page) {
    for (size_t got = 0; got < PAGE;) {
        ssize_t some = read(from, (char *)page + got, PAGE - got);
        CHECK(some > 0);
        got += some;
    }
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, press, (void *)(i + 3)) == 0);
    for (uint64_t round = 2; round < ROUNDS + 2; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        for (uint64_t page = 0; page < SPLICED; page++) fill(memory, page, round);
        struct iovec all = {memory, SPLICED * PAGE};
        CHECK(vmsplice(ends[1], &all, 1, 0) == SPLICED * PAGE);
        /* A busy machine may never get to them: then this round shows nothing. */
        for (int tries = 0; tries < 100 && !is_down_to(memory, SPLICED, 0); tries++)
            usleep(1000);
        usleep(5000);
        for (uint64_t page = 0; page < SPLICED; page++) {
            uint64_t content[WORDS];
            read_page(ends[0], content);
            for (size_t word = 0; word < WORDS; word++)
                CHECK(content[word] == word_of(page, round, word));
        }
        CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
