/* Ring buffers whose second half is a second view of their first (mremap with an old size of 0), and memory that a view of a
   file takes the place of while other threads read it: before the program is paged, and afterwards. What is mapped at these
   addresses later is memory like any other, which a child has copies of. */
#include "memory.h"

#include <pthread.h>

enum { PAGES = 12000, RING = 64, VIEW = 16, MANY = 16, TURNS = 300 };

static char *_Atomic place;
static atomic_int is_over;

/* What is there reads as 7 at any time. */
static void *look(void *unused) {
    (void)unused;
    for (size_t page = 0; !is_over; page = (page + 5) % VIEW) {
        volatile char *view = place;
        CHECK(view[page * PAGE + 8] == 7);
    }
    return NULL;
}

static void replace(int flags) {
    int file = memfd_create("view", 0);
    char page[PAGE];
    memset(page, 7, PAGE);
    for (int i = 0; i < VIEW; i++) CHECK(write(file, page, PAGE) == (ssize_t)PAGE);
    pthread_t thread;
    char *view[TURNS];
    view[0] = (char *)map_pages(VIEW);
    memset(view[0], 7, VIEW * PAGE);
    place = view[0];
    is_over = 0;
    CHECK(pthread_create(&thread, NULL, look, NULL) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        view[turn] = (char *)map_pages(VIEW);
        memset(view[turn], 7, VIEW * PAGE);
        place = view[turn];
        usleep(20);
        CHECK(mmap(view[turn], VIEW * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == view[turn]);
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    for (int turn = 0; turn < TURNS; turn++) CHECK(munmap(view[turn], VIEW * PAGE) == 0);
    CHECK(close(file) == 0);
}

static void ring(void) {
    int both = PROT_READ | PROT_WRITE;
    char *base = mmap(NULL, 2 * RING * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    CHECK(mmap(base, RING * PAGE, both, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base);
    char *half = base + RING * PAGE;
    CHECK(mremap(base, 0, RING * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, half) == half);
    memset(base, 7, RING * PAGE);
    for (size_t byte = 0; byte < RING * PAGE; byte += PAGE) CHECK(half[byte] == 7);
    CHECK(munmap(base, 2 * RING * PAGE) == 0);

    uint64_t *memory[MANY];
    for (int i = 0; i < MANY; i++) {
        memory[i] = map_pages(RING);
        for (uint64_t page = 0; page < RING; page++) {
            CHECK(is_zero(memory[i], page));
            fill(memory[i], page, i);
        }
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < MANY; i++)
            for (uint64_t page = 0; page < RING; page++) fill(memory[i], page, 900);
        _exit(0);
    }
    join_child(child);
    for (int i = 0; i < MANY; i++) {
        for (uint64_t page = 0; page < RING; page++) CHECK(holds(memory[i], page, i));
        CHECK(munmap(memory[i], RING * PAGE) == 0);
    }
}

/* There is no second view of memory that is not shared; what is at the other place stays. */
static void refused(void) {
    char *from = (char *)map_pages(1), *to = (char *)map_pages(1);
    to[5] = 5;
    CHECK(mremap(from, 0, PAGE, MREMAP_MAYMOVE, NULL) == MAP_FAILED && errno == EINVAL);
    CHECK(to[5] == 5);
    CHECK(munmap(from, PAGE) == 0 && munmap(to, PAGE) == 0);
}

int main(void) {
    end_if_it_hangs();
    for (int is_paged = 0; is_paged < 2; is_paged++) {
        uint64_t *memory = is_paged ? map_pages(PAGES) : NULL;
        for (uint64_t page = 0; is_paged && page < PAGES; page++) fill(memory, page, 1);
        if (is_paged) wait_until_paged(memory, PAGES);
        replace(MAP_SHARED);
        replace(MAP_PRIVATE);
        ring();
        refused();
        for (uint64_t page = 0; is_paged && page < PAGES; page++) CHECK(holds(memory, page, 1));
    }
    return 0;
}
