/* Forks of a program most of whose memory is in the backing file: nothing of the file is copied, and parent, children and
   grandchildren go on with all of their memory, also those that live on while the parent writes everything anew. */
#include "memory.h"

enum { PAGES = 12000, TURNS = 6, LIVING = 2, MOST_BYTES = 1 << 20 };

static uint64_t *memory;

/* Bytes that this process has read and written by system calls since it began. */
static long io_bytes(void) {
    char text[512];
    int file = open("/proc/self/io", O_RDONLY);
    CHECK(file >= 0);
    ssize_t count = read(file, text, sizeof text - 1);
    CHECK(count > 0 && close(file) == 0);
    text[count] = 0;
    long in, out;
    CHECK(sscanf(text, "rchar: %ld wchar: %ld", &in, &out) == 2);
    return in + out;
}

static void write_all(uint64_t version) {
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, version);
}

static void check_all(uint64_t version) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, version));
}

static void in_child(uint64_t turn, int go_on) {
    CHECK(io_bytes() < MOST_BYTES);
    char byte;
    CHECK(read(go_on, &byte, 1) == 1);
    check_all(turn);
    write_all(100 + turn);
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
        CHECK(io_bytes() < MOST_BYTES);
        check_all(100 + turn);
        _exit(0);
    }
    write_all(200 + turn);
    join_child(grandchild);
    check_all(200 + turn);
    _exit(0);
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    write_all(0);
    wait_until_paged(memory, PAGES);
    pid_t children[TURNS];
    int go_on[TURNS][2];
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        CHECK(pipe(go_on[turn]) == 0);
        children[turn] = fork();
        CHECK(children[turn] >= 0);
        if (children[turn] == 0) {
            /* When the parent fails, its children's reads do. */
            for (uint64_t other = 0; other <= turn; other++) close(go_on[other][1]);
            in_child(turn, go_on[turn][0]);
        }
        write_all(turn + 1);
        check_all(turn + 1);
        if (turn < LIVING) continue;
        uint64_t oldest = turn - LIVING;
        CHECK(write(go_on[oldest][1], "", 1) == 1);
        join_child(children[oldest]);
    }
    for (uint64_t turn = TURNS - LIVING; turn < TURNS; turn++) {
        CHECK(write(go_on[turn][1], "", 1) == 1);
        join_child(children[turn]);
    }
    check_all(TURNS);
    return 0;
}
