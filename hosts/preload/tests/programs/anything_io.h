/* What `anything.c` gives to system calls: memory that is away, that pipes and devices refer to, or that is none. */
#ifndef ANYTHING_IO_H
#define ANYTHING_IO_H

#include <sys/uio.h>

#include "anything.h"

/* A file takes the pages, and gives them to others. */
static void through_file(struct world *world) {
    size_t from, to, pages = find(world, can_read, BUFFER_PAGES, 0, &from);
    int own = scratch[world->number];
    if (pages == 0) return;
    CHECK(pwrite(own, at(world, from), pages * PAGE, 0) == (ssize_t)(pages * PAGE));
    CHECK(pread(own, buffer, pages * PAGE, 0) == (ssize_t)(pages * PAGE));
    EXPECT(from, memcmp(buffer, shadow(world, from), pages * PAGE) == 0);
    size_t room = find(world, can_both, pages, 0, &to);
    size_t bytes = room ? below(world, room * PAGE) : 0;
    CHECK(pread(own, at(world, to), bytes, 0) == (ssize_t)bytes);
    memcpy(shadow(world, to), buffer, bytes);
    note(world, from, pages, (long)bytes);
}

/* A pipe copies pages, or refers to them (`vmsplice`). */
static void through_pipe(struct world *world) {
    size_t from, to, pages = find(world, can_read, BUFFER_PAGES, 0, &from);
    if (pages == 0) return;
    int ends[2], is_spliced = chance(world, 2);
    CHECK(pipe(ends) == 0);
    struct iovec vector = {at(world, from), pages * PAGE};
    ssize_t bytes = is_spliced ? vmsplice(ends[1], &vector, 1, 0) : writev(ends[1], &vector, 1);
    CHECK(bytes == (ssize_t)(pages * PAGE));
    if (is_spliced && world->page[from].kind == MEMORY && chance(world, 2)) {
        CHECK(madvise(at(world, from), PAGE, MADV_DONTNEED) == 0);
        memcpy(buffer, shadow(world, from), PAGE);
        forget(world, from);
    } else {
        memcpy(buffer, shadow(world, from), PAGE);
    }
    size_t room = find(world, can_both, 1, 0, &to);
    /* What is written to pages that a pipe refers to is in the pipe. */
    if (to >= from && to < from + pages) room = 0;
    static __thread char rest[BUFFER_PAGES * PAGE];
    struct iovec into[] = {{room ? at(world, to) : rest, PAGE}, {rest + PAGE, (pages - 1) * PAGE}};
    CHECK(readv(ends[0], into, 2) == bytes);
    EXPECT(from, memcmp(rest + PAGE, shadow(world, from + 1), (pages - 1) * PAGE) == 0);
    if (room) memcpy(shadow(world, to), buffer, PAGE);
    if (room) check_page(world, to);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    note(world, from, pages, is_spliced);
}

static void by_another(struct world *world) {
    size_t from, pages = find(world, can_read, BUFFER_PAGES, 0, &from);
    struct iovec here = {buffer, pages * PAGE}, there = {at(world, from), pages * PAGE};
    if (pages == 0) return;
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)(pages * PAGE));
    EXPECT(from, memcmp(buffer, shadow(world, from), pages * PAGE) == 0);
    note(world, from, pages, 0);
}

/* Devices write to the memory itself. */
static void direct(struct world *world) {
    static atomic_int is_refused;
    char name[] = "/var/tmp/warmswap-anything-XXXXXX";
    size_t from, to, pages = find(world, can_read, BUFFER_PAGES, 0, &from);
    size_t room = find(world, is_private_both, BUFFER_PAGES, 0, &to);
    pages = pages < room ? pages : room;
    if (pages == 0) return;
    note(world, from, pages, (long)to);
    int device = is_refused ? -1 : mkostemp(name, O_DIRECT);
    if (device < 0) {
        /* A file system without it, or a library that refuses it. */
        is_refused = 1;
        memmove(at(world, to), at(world, from), pages * PAGE);
    } else {
        CHECK(unlink(name) == 0);
        CHECK(pwrite(device, at(world, from), pages * PAGE, 0) == (ssize_t)(pages * PAGE));
        CHECK(pread(device, at(world, to), pages * PAGE, 0) == (ssize_t)(pages * PAGE));
        CHECK(close(device) == 0);
    }
    memmove(shadow(world, to), shadow(world, from), pages * PAGE);
    check(world, to, pages);
}

/* Memory that a system call cannot use. */
static void unusable(struct world *world) {
    size_t page = below(world, WINDOW);
    struct page is = world->page[page];
    if (!can_read(is) && is.protection != WRITE) {
        note(world, page, 1, outcome(pwrite(scratch[world->number], at(world, page), PAGE, 0) < 0));
    } else if (!can_write(is)) {
        CHECK(pwrite(scratch[world->number], buffer, PAGE, 0) == (ssize_t)PAGE);
        note(world, page, 1, outcome(pread(scratch[world->number], at(world, page), PAGE, 0) < 0));
    }
}

/* What the kernel refuses changes nothing. */
static void nonsense(struct world *world) {
    /* More than there are addresses on any processor: 57 bits of them are the most. */
    static const size_t lengths[] = {0, 1ul << 62, SIZE_MAX, SIZE_MAX - PAGE + 1, 1ul << 57, PAGE};
    size_t page = below(world, WINDOW), len = lengths[below(world, 6)];
    size_t off = chance(world, 2) || len == PAGE ? 1 + below(world, PAGE - 1) : 0;
    char *address = at(world, page) + off;
    int fixed = PRIVATE | MAP_FIXED, result = 0;
    errno = 0;
    switch (below(world, 8)) {
    case 0: result = munmap(address, len) != 0; break;
    case 1: result = off ? mprotect(address, len, BOTH) != 0 : 0; break;
    case 2: result = mprotect(at(world, page), 0, NONE) != 0; break;
    case 3: result = madvise(address, off ? len : 0, MADV_DONTNEED) != 0; break;
    case 4: result = mmap(address, len, BOTH, fixed, -1, 0) == MAP_FAILED; break;
    case 5: result = mmap(at(world, page), PAGE, BOTH, MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED; break;
    case 6: result = mmap(at(world, page), PAGE, READ, MAP_PRIVATE | MAP_FIXED, file, 1) == MAP_FAILED; break;
    default: result = mremap(address, PAGE, off ? PAGE : 0, MREMAP_MAYMOVE) == MAP_FAILED; break;
    }
    note(world, page, len, result ? errno : 0);
}

#endif
