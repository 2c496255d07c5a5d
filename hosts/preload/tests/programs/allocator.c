/* A program with an allocator of its own, over mmap (jemalloc or tcmalloc linked into it): what the C library allocates
   for threads of the preloaded library lies in the program's memory, too. It is paged, forks again and again, and its
   children go on. */
#include "memory.h"
#include <pthread.h>

#define ARENA (64ul << 20)
enum { PAGES = 12000, FORKS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *arena, *next;

static void *take(size_t align, size_t bytes) {
    pthread_mutex_lock(&lock);
    if (!arena) {
        arena = next = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arena == MAP_FAILED) abort();
    }
    uintptr_t block = ((uintptr_t)next + 16 + align - 1) & ~(align - 1);
    next = (char *)block + bytes;
    if (next > arena + ARENA) abort();
    pthread_mutex_unlock(&lock);
    ((size_t *)block)[-1] = bytes;
    return (void *)block;
}

void *malloc(size_t bytes) { return take(16, bytes); }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t bytes) { return memset(take(16, count * bytes), 0, count * bytes); }
void *realloc(void *block, size_t bytes) {
    void *other = take(16, bytes);
    if (block) {
        size_t before = ((size_t *)block)[-1];
        memcpy(other, block, before < bytes ? before : bytes);
    }
    return other;
}
void *memalign(size_t align, size_t bytes) { return take(align < 16 ? 16 : align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void **block, size_t align, size_t bytes) {
    *block = memalign(align, bytes);
    return 0;
}
size_t malloc_usable_size(void *block) { return ((size_t *)block)[-1]; }

#ifdef LOCKS_IN_FORKS
static void take_lock(void) { pthread_mutex_lock(&lock); }
static void let_go(void) { pthread_mutex_unlock(&lock); }

static void __attribute__((constructor)) handle_forks(void) {
    CHECK(pthread_atfork(take_lock, let_go, let_go) == 0);
}
#endif

int main(void) {
    /* What was allocated before the library was there stays apart. */
    pthread_mutex_lock(&lock);
    arena = NULL;
    pthread_mutex_unlock(&lock);
    CHECK(malloc(16));
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
#ifdef LOCKS_IN_FORKS
    give_time_to_page(memory, PAGES);
#else
    wait_until_paged(memory, PAGES);
#endif
    for (int i = 0; i < FORKS; i++) {
        CHECK(malloc(3000));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (uint64_t page = i; page < PAGES; page += 500) CHECK(holds(memory, page, 1));
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
