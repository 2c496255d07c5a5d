/* Threads whose stacks are the program's own memory, as coroutines have them: they map, unmap and give up what lies below
   their stack pointer, while others fork. */
#include "memory.h"
#include <pthread.h>
#include <time.h>

enum { PAGES = 12000, THREADS = 6, STACK_PAGES = 64, TURNS = 150 };

static uint64_t *memory;
static atomic_int is_over;

static __attribute__((noinline)) void deep(int levels) {
    volatile char here[2048];
    here[0] = levels;
    if (levels) deep(levels - 1);
    here[1] = here[0];
}

static void *work(void *number) {
    uint64_t state = (uintptr_t)number + 1;
    int turns = 0;
    while (turns < TURNS || !atomic_load(&is_over)) {
        char here;
        uintptr_t low = ((uintptr_t)&here & ~(PAGE - 1)) - 40 * PAGE;
        CHECK(madvise((void *)low, 38 * PAGE, MADV_DONTNEED) == 0);
        for (int i = 0; i < 30; i++)
            atomic_fetch_add((_Atomic uint64_t *)memory + next_random(&state) % PAGES * WORDS, 1);
        deep(8);
        uint64_t *more = map_pages(16);
        more[0] = turns;
        CHECK(more[0] == (uint64_t)turns);
        CHECK(munmap(more, 16 * PAGE) == 0);
        turns++;
    }
    return NULL;
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_attr_t attributes;
        CHECK(pthread_attr_init(&attributes) == 0);
        CHECK(pthread_attr_setstack(&attributes, map_pages(STACK_PAGES), STACK_PAGES * PAGE) == 0);
        CHECK(pthread_create(&threads[i], &attributes, work, (void *)i) == 0);
    }
    for (int i = 0; i < 40; i++) {
        usleep(20000);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(memory[1] == word_of(0, 1, 1) ? 7 : 8);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 7);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
