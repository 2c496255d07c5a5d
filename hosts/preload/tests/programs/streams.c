/* Threads that open and close streams, whose memory may be away, while another one forks: the C library takes a lock of all
   streams in every fork. */
#include "memory.h"
#include <pthread.h>

enum { PAGES = 12000, THREADS = 3, FORKS = 60, STREAMS = 64 };

static uint64_t *memory;
static atomic_int is_over;

static void *work(void *number) {
    uint64_t state = (uintptr_t)number + 1;
    FILE *streams[STREAMS] = {0};
    while (!atomic_load(&is_over)) {
        FILE **stream = &streams[next_random(&state) % STREAMS];
        if (*stream) {
            CHECK(fputs("a line\n", *stream) >= 0);
            CHECK(fclose(*stream) == 0);
            *stream = NULL;
        } else {
            *stream = fopen("/dev/null", "w");
            CHECK(*stream != NULL);
        }
        for (int i = 0; i < 10; i++)
            atomic_fetch_add((_Atomic uint64_t *)memory + next_random(&state) % PAGES * WORDS, 1);
    }
    return NULL;
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < FORKS; i++) {
        usleep(5000);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            FILE *stream = fopen("/dev/null", "w");
            CHECK(stream != NULL && fclose(stream) == 0);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 7);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
