/* Threads that have ended before the library takes the program over: what the C library keeps of them for new threads
   lies in memory that is paged, and leaves soon. */
#include "memory.h"

#include <pthread.h>

enum { THREADS = 24, PAGES = 12000, TURNS = 4000, MOST_ROUNDS = 200 };

static pthread_barrier_t all_are_here;
static _Thread_local uint64_t own;

static void *work(void *argument) {
    own = (uintptr_t)argument;
    pthread_barrier_wait(&all_are_here);
    CHECK(own == (uintptr_t)argument);
    return NULL;
}

int main(void) {
    end_if_it_hangs();
    CHECK(pthread_barrier_init(&all_are_here, NULL, THREADS) == 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);

    uint64_t *memory = map_pages(PAGES), state = 1;
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (int round = 0, rounds = 1; round < rounds && round < MOST_ROUNDS; round++) {
        if (!is_down_to(memory, PAGES, PAGES / 2)) rounds = round + 2;
        for (int turn = 0; turn < TURNS; turn++) CHECK(holds(memory, next_random(&state) % PAGES, 1));
    }
    return 0;
}
