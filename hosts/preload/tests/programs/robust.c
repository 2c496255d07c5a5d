/* Threads that end while they hold robust mutexes, whose pages would otherwise be away; and threads with stacks of the
   program's own, whose end is waited for. */
#include "memory.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

enum { PAGES = 12000, MUTEXES = 20, STACK_PAGES = 64 };

static pthread_mutex_t *mutexes[MUTEXES];
static atomic_int is_held, is_time;

static void *own(void *number) {
    CHECK(pthread_mutex_lock(mutexes[(uintptr_t)number]) == 0);
    atomic_fetch_add(&is_held, 1);
    while (!atomic_load(&is_time)) usleep(1000);
    if ((uintptr_t)number % 2 == 0) syscall(SYS_exit, 0);
    return NULL;
}

static void *rest(void *unused) {
    (void)unused;
    while (!atomic_load(&is_time)) usleep(20000);
    return NULL;
}

int main(void) {
    end_if_it_hangs();
    uint64_t *apart = map_pages(MUTEXES);
    uint64_t *memory = map_pages(PAGES);
    pthread_mutexattr_t robust;
    CHECK(pthread_mutexattr_init(&robust) == 0);
    CHECK(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) == 0);
    pthread_t owners[MUTEXES], resting[MUTEXES];
    for (uintptr_t i = 0; i < MUTEXES; i++) {
        /* Half of them before the program is paged. */
        if (i == MUTEXES / 2) {
            for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
            wait_until_paged(memory, PAGES);
        }
        mutexes[i] = (pthread_mutex_t *)(apart + i * WORDS + 100);
        CHECK(pthread_mutex_init(mutexes[i], &robust) == 0);
        CHECK(pthread_create(&owners[i], NULL, own, (void *)i) == 0);
        pthread_attr_t attributes;
        CHECK(pthread_attr_init(&attributes) == 0);
        /* What is behind a stack is not the thread's: no access to it, if only to keep it, may end the program. */
        uint64_t *stack = map_pages(STACK_PAGES + 1);
        CHECK(mprotect(stack + STACK_PAGES * WORDS, PAGE, i % 2 == 0 ? PROT_READ : PROT_NONE) == 0);
        CHECK(pthread_attr_setstack(&attributes, stack, STACK_PAGES * PAGE) == 0);
        CHECK(pthread_create(&resting[i], &attributes, rest, NULL) == 0);
    }
    while (atomic_load(&is_held) < MUTEXES) usleep(100);
    for (uint64_t round = 2; round < 6; round++)
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, round);
    atomic_store(&is_time, 1);
    for (int i = 0; i < MUTEXES; i++) {
        CHECK(pthread_join(resting[i], NULL) == 0);
        CHECK(pthread_join(owners[i], NULL) == 0);
        CHECK(pthread_mutex_lock(mutexes[i]) == EOWNERDEAD);
        CHECK(pthread_mutex_consistent(mutexes[i]) == 0);
        CHECK(pthread_mutex_unlock(mutexes[i]) == 0);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 5));
    return 0;
}
